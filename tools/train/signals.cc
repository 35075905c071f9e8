#include "train/signals.h"

#include <gflags/gflags.h>

#include <atomic>
#include <csignal>

#include "core/error.h"
#include "core/strings.h"

DEFINE_string(sigint_effect, "stop", "what SIGINT does: stop (with a snapshot), snapshot or none");
DEFINE_string(sighup_effect, "snapshot", "what SIGHUP does: stop, snapshot or none");

namespace crema::tools {
namespace {

std::atomic<bool> g_interrupted{false};  // NOLINT: a signal handler can reach nothing else
std::atomic<bool> g_terminated{false};   // NOLINT
std::atomic<bool> g_hung_up{false};      // NOLINT

void OnSignal(int signal) {
  (signal == SIGHUP ? g_hung_up : signal == SIGTERM ? g_terminated : g_interrupted) = true;
}

Request EffectOf(const std::string& flag, const std::string& value) {
  if (value == "stop") return Request::kStop;
  if (value == "snapshot") return Request::kSnapshot;
  if (value == "none") return Request::kNone;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("--", flag, ": '", value, "' is not one of stop, snapshot, none"));
}

}  // namespace

std::function<Request()> WatchSignals() {
  const Request on_interrupt = EffectOf("sigint_effect", FLAGS_sigint_effect);
  const Request on_hangup = EffectOf("sighup_effect", FLAGS_sighup_effect);
  return [on_interrupt, on_hangup] {
    if (g_terminated.exchange(false)) return Request::kStop;
    if (g_interrupted.exchange(false)) return on_interrupt;
    if (g_hung_up.exchange(false)) return on_hangup;
    return Request::kNone;
  };
}

void CatchSignals() {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigfillset(&action.sa_mask);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

}  // namespace crema::tools
