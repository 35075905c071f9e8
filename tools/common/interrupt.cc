#include "common/interrupt.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

namespace crema::tools {
namespace {

std::atomic<int> g_signal{0};  // NOLINT: a signal handler can reach nothing else

void OnSignal(int signal) {
  if (g_signal.exchange(signal) != 0) EndBySignal(signal);
}

struct InterruptedError {};

}  // namespace

void EndBySignal(int signal) {
  std::signal(signal, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  ::kill(::getpid(), signal);
  ::_exit(128 + signal);  // PID 1
}

void HandleSignalsAsPid1() {
  if (::getpid() != 1) return;
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_DFL) std::signal(signal, EndBySignal);
  }
}

void CatchInterrupt() {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigfillset(&action.sa_mask);
  for (int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

bool Interrupted() { return g_signal != 0; }

int WithoutLeftovers(const std::function<int()>& work) {
  CatchInterrupt();
  try {
    return work();
  } catch (const InterruptedError&) {
    EndBySignal(g_signal);
  }
}

void EndIfInterrupted() {
  if (Interrupted()) throw InterruptedError();
}

}  // namespace crema::tools
