#include "common/interrupt.h"

#include <atomic>
#include <csignal>

namespace crema::tools {
namespace {

std::atomic<bool> g_interrupted{false};  // NOLINT: a signal handler can reach nothing else

void OnSignal(int) { g_interrupted = true; }

}  // namespace

void CatchInterrupt() {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  sigfillset(&action.sa_mask);
  for (int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

bool Interrupted() { return g_interrupted; }

}  // namespace crema::tools
