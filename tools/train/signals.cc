#include "train/signals.h"

#include <gflags/gflags.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>

#include "common/interrupt.h"
#include "core/error.h"
#include "core/strings.h"

DEFINE_string(
    sigint_effect, "stop",
    "[Expert stop|snapshot|none] effect of SIGINT: stop (with a snapshot), snapshot or none");
DEFINE_string(sighup_effect, "snapshot",
              "[Expert stop|snapshot|none] effect of SIGHUP: stop, snapshot or none");

namespace crema::tools {
namespace {

std::atomic<bool> g_interrupted{false};  // NOLINT: a signal handler can reach nothing else
std::atomic<bool> g_terminated{false};   // NOLINT
std::atomic<bool> g_hung_up{false};      // NOLINT
std::atomic<bool> g_sigint_stops{true};  // NOLINT
std::atomic<bool> g_sighup_stops{true};  // NOLINT
std::atomic<int64_t> g_stop_time{0};     // NOLINT: of the first signal that stops, in milliseconds

bool Stops(int signal) {
  if (signal == SIGTERM) return true;
  return signal == SIGHUP ? g_sighup_stops : g_sigint_stops;
}

// Shells and launchers send one stop several times; only after a second it counts as another.
void OnSignal(int signal) {
  constexpr int64_t kOneStop = 1000;
  if (Stops(signal)) {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    const int64_t now = int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1000000;
    int64_t first = 0;
    if (!g_stop_time.compare_exchange_strong(first, now) && now - first >= kOneStop) {
      EndBySignal(signal);
    }
  }
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
  g_sigint_stops = on_interrupt == Request::kStop;
  g_sighup_stops = on_hangup == Request::kStop;
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
