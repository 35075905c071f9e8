// Measures implementations within a time limit, and stores the results.
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
  double seconds = 0;       // limit for all plans together; a pass in progress may exceed it
  std::string folder = {};  // for the file of times; empty: they are not stored
  std::string build = {};   // of Crema: times of other builds are ignored
  LogSink* log = nullptr;   // null: silent
};

// Reads the file of times first, so that the first measurement stays decisive: with that file a
// second run makes the same plans and computes the same bits. A layer that was not measured within
// the limit is recorded as such; it is measured when a later run has a larger limit. Errors of the
// file are logged once as a warning, and measuring continues. Thread safety: any number of threads,
// one measures at a time.
class Autotuner final : public ImplementationTimer {
 public:
  using Clock = std::chrono::steady_clock;
  using TimeImplementationsFunction = std::function<std::vector<double>(
      const OpDesc&, std::span<const Implementation* const>, Clock::time_point)>;

  // `time_implementations` is TimeImplementations (runtime/implementation_bench.h), or replaced by
  // tests.
  explicit Autotuner(AutotuneOptions options,
                     TimeImplementationsFunction time_implementations = {});
  // Saves what first passes measured after the last plan.
  ~Autotuner() override;
  Autotuner(const Autotuner&) = delete;
  Autotuner& operator=(const Autotuner&) = delete;

  std::vector<double> Measure(const std::string& layer, const OpDesc& query,
                              std::span<const Implementation* const> implementations) override;
  // Does the same for engines, by the text of their work instead of this machine's: the caller
  // names the GPU. Engines that are not available count as the slowest.
  std::vector<double> MeasureEngines(const std::string& work, std::span<const std::string> engines,
                                     const std::function<double(size_t)>& measure) override;
  // Writes the file if there are new times, and logs what was done since the last call.
  void Save() override;

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

// Returns $XDG_CACHE_HOME/crema, or .cache/crema in the home folder; empty if neither is known.
std::string AutotuneFolder();

}  // namespace crema
