#include "runtime/autotuner.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "core/error.h"
#include "core/machine_limits.h"
#include "core/memory_format.h"
#include "core/processor.h"
#include "core/strings.h"
#include "math/library_versions.h"
#include "runtime/implementation_bench.h"

namespace crema {
namespace {

// Returns everything besides the layer that times depend on, on one line.
std::string MachineText(const std::string& build) {
  std::string text = StrCat(ProcessorName(), ", vectors of ", ChannelBlock(), "; ", build, "; ",
                            LibraryVersions(), "; ");
  const ProcessorLevel level = AllowedLevel();
  if (level != ProcessorLevel::kAll) text += StrCat("level ", static_cast<int>(level), "; ");
  for (char& c : text) {
    if (c == '\t' || c == '\n') c = ' ';
  }
  return text;
}

std::string Seconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f s", seconds);
  return text;
}

// The time of engines that are not available: the file has finite times only.
constexpr double kNever = 1e9;

std::vector<std::string> NamesOf(std::span<const Implementation* const> implementations) {
  std::vector<std::string> names;
  for (const Implementation* implementation : implementations)
    names.push_back(implementation->name);
  return names;
}

// Returns the times in the order of `names`; empty unless all are known.
std::vector<double> TimesOf(const KnownTimes& times, std::span<const std::string> names) {
  std::vector<double> seconds;
  for (const std::string& name : names) {
    const auto found = times.seconds.find(name);
    if (found == times.seconds.end()) return {};
    seconds.push_back(found->second);
  }
  return seconds;
}

}  // namespace

Autotuner::Autotuner(AutotuneOptions options, TimeImplementationsFunction time_implementations)
    : options_(std::move(options)),
      time_implementations_(std::move(time_implementations)),
      machine_(MachineText(options_.build)),
      file_(options_.folder) {
  if (!options_.folder.empty()) ReadFile();
}

Autotuner::~Autotuner() {
  if (fresh_.empty()) return;
  try {
    Save();
  } catch (...) {  // the next run measures again
  }
}

void Autotuner::ReadFile() {
  try {
    known_ = file_.Read();
  } catch (const Error& error) {
    Warn(StrCat(error.what(), "; implementations are measured again"));
  }
}

std::vector<double> Autotuner::Measure(const std::string& layer, const OpDesc& query,
                                       std::span<const Implementation* const> implementations) {
  return KnownOrMeasured(
      machine_ + layer, NamesOf(implementations), [&](Clock::time_point deadline) {
        return time_implementations_ ? time_implementations_(query, implementations, deadline)
                                     : TimeImplementations(query, implementations, deadline);
      });
}

std::vector<double> Autotuner::MeasureEngines(const std::string& work,
                                              std::span<const std::string> engines,
                                              const std::function<double(size_t)>& measure) {
  return KnownOrMeasured(work, engines, [&](Clock::time_point deadline) {
    std::vector<double> seconds;
    for (size_t i = 0; i < engines.size(); ++i) {
      if (Clock::now() > deadline) return std::vector<double>();
      seconds.push_back(std::min(measure(i), kNever));
    }
    return seconds;
  });
}

std::vector<double> Autotuner::KnownOrMeasured(const std::string& key,
                                               std::span<const std::string> names,
                                               const TimeAll& time_all) {
  const std::lock_guard lock(mutex_);
  KnownTimes& known = known_[key];
  std::vector<double> seconds = TimesOf(known, names);
  if (!seconds.empty()) {
    ++counts_.known;
    return seconds;
  }
  if (known.beyond >= options_.seconds) {
    ++counts_.beyond;
    return {};
  }
  seconds = TimeWithinBound(time_all);
  ++(seconds.empty() ? counts_.beyond : counts_.measured);
  if (seconds.empty()) known.beyond = options_.seconds;
  for (size_t i = 0; i < seconds.size(); ++i) known.seconds[names[i]] = seconds[i];
  fresh_[key] = known;
  return seconds;
}

std::vector<double> Autotuner::TimeWithinBound(const TimeAll& time_all) {
  if (spent_ >= options_.seconds) return {};
  const Clock::time_point start = Clock::now();
  const std::chrono::duration<double> left(options_.seconds - spent_);
  const auto deadline = start + std::chrono::duration_cast<Clock::duration>(left);
  std::vector<double> seconds = time_all(deadline);
  const double took = std::chrono::duration<double>(Clock::now() - start).count();
  spent_ += took;
  counts_.seconds += took;
  return seconds;
}

void Autotuner::Save() {
  const std::lock_guard lock(mutex_);
  if (!options_.folder.empty() && !fresh_.empty()) {
    try {
      file_.Add(fresh_);
    } catch (const Error& error) {
      Warn(StrCat(error.what(),
                  "; the times of implementations are not saved: the next run measures again"));
    }
  }
  fresh_.clear();
  ReportToLog();
}

void Autotuner::Warn(const std::string& text) {
  if (options_.log == nullptr || std::exchange(warned_, true)) return;
  options_.log->Write(Severity::kWarning, "autotune: " + text);
}

void Autotuner::ReportToLog() {
  const Counts counts = std::exchange(counts_, {});
  if (options_.log == nullptr) return;
  std::string text = StrCat("autotune: ", counts.measured, " kinds of layers measured in ",
                            Seconds(counts.seconds), ", ", counts.known, " known");
  if (counts.beyond > 0) {
    text += StrCat(", ", counts.beyond, " left to estimates: ", options_.seconds,
                   " s were over, or other programs kept the processors");
  }
  if (!options_.folder.empty()) text += StrCat("; ", file_.path());
  options_.log->Write(Severity::kInfo, text);
}

std::string AutotuneFolder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return StrCat(cache, "/crema");
  const char* home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? StrCat(home, "/.cache/crema") : "";
}

}  // namespace crema
