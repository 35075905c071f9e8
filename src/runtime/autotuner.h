// Measures implementations within a bound of time, and keeps what it measured.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/log.h"
#include "plan/implementation_timer.h"
#include "runtime/implementation_times_file.h"

namespace crema {

struct AutotuneOptions {
  double seconds = 0;  // at most this long for all plans together, but for a pass that was begun
  std::string folder = {};  // for the file of times; empty: they are not kept
  std::string build = {};   // of Crema: times of other builds are not used
  LogSink* log = nullptr;   // null: silent
};

// Asks the file of times first, so that what was measured once decides ever after: with that file a
// second run makes the same plans and computes the same bits. A layer whose turn did not come
// within the bound is kept as such; it is measured when a later run has a larger bound. Trouble
// with the file is a warning, said once, and no reason not to measure. Thread safety: any number of
// threads, one measures at a time.
class Autotuner final : public ImplementationTimer {
 public:
  using Clock = std::chrono::steady_clock;
  using TimeImplementationsFunction = std::function<std::vector<double>(
      const OpDesc&, std::span<const Implementation* const>, Clock::time_point)>;

  // `time_implementations` is TimeImplementations (runtime/implementation_bench.h), or what a test
  // puts there.
  explicit Autotuner(AutotuneOptions options,
                     TimeImplementationsFunction time_implementations = {});
  // Keeps what first passes measured after the last plan.
  ~Autotuner() override;
  Autotuner(const Autotuner&) = delete;
  Autotuner& operator=(const Autotuner&) = delete;

  std::vector<double> Measure(const std::string& layer, const OpDesc& query,
                              std::span<const Implementation* const> implementations) override;
  // The same of engines, by the text of their work instead of this machine's: whoever asks names
  // the GPU. Those that cannot be had count as the slowest.
  std::vector<double> MeasureEngines(const std::string& work, std::span<const std::string> engines,
                                     const std::function<double(size_t)>& measure) override;
  // Writes the file, where there is something new, and logs what was done since the last call.
  void Keep() override;

 private:
  struct Counts {
    int measured = 0;
    int known = 0;
    int beyond = 0;
    double seconds = 0;
  };

  void ReadFile();
  using TimeAll = std::function<std::vector<double>(Clock::time_point deadline)>;
  std::vector<double> KnownOrMeasured(const std::string& key, std::span<const std::string> names,
                                      const TimeAll& time_all);
  std::vector<double> TimeWithinBound(const TimeAll& time_all);
  void Warn(const std::string& text);
  void ReportToLog();

  const AutotuneOptions options_;
  const TimeImplementationsFunction time_implementations_;
  const std::string machine_;
  const ImplementationTimesFile file_;
  std::mutex mutex_;
  KnownLayers known_;
  KnownLayers fresh_;  // not written yet
  Counts counts_;
  double spent_ = 0;  // seconds
  bool warned_ = false;
};

// $XDG_CACHE_HOME/crema, or .cache/crema in the home folder; empty where neither is known.
std::string AutotuneFolder();

}  // namespace crema
