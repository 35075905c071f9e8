#include "runtime/autotuner.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "core/error.h"
#include "core/machine_limits.h"
#include "core/memory_format.h"
#include "core/strings.h"
#include "math/library_versions.h"
#include "runtime/row_bench.h"

namespace crema {
namespace {

// What times depend on besides the layer, on one line.
std::string MachineText(const std::string& build) {
  std::string text = StrCat(ProcessorName(), ", vectors of ", ChannelBlock(), "; ", build, "; ",
                            LibraryVersions(), "; ");
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

// In the order of `rows`; empty unless all are there.
std::vector<double> TimesOf(const KnownTimes& times, std::span<const Kernel* const> rows) {
  std::vector<double> seconds;
  for (const Kernel* row : rows) {
    const auto found = times.seconds.find(row->name);
    if (found == times.seconds.end()) return {};
    seconds.push_back(found->second);
  }
  return seconds;
}

}  // namespace

Autotuner::Autotuner(AutotuneOptions options, TimeRowsFunction time_rows)
    : options_(std::move(options)),
      time_rows_(std::move(time_rows)),
      machine_(MachineText(options_.build)),
      file_(options_.folder) {
  if (!options_.folder.empty()) ReadFile();
}

void Autotuner::ReadFile() {
  try {
    known_ = file_.Read();
  } catch (const Error& error) {
    Warn(StrCat(error.what(), "; rows are measured again"));
  }
}

std::vector<double> Autotuner::Measure(const std::string& layer, const KernelQuery& query,
                                       std::span<const Kernel* const> rows) {
  const std::lock_guard lock(mutex_);
  const std::string key = machine_ + layer;
  KnownTimes& known = known_[key];
  std::vector<double> seconds = TimesOf(known, rows);
  if (!seconds.empty()) {
    ++counts_.known;
    return seconds;
  }
  if (known.beyond >= options_.seconds) {
    ++counts_.beyond;
    return {};
  }
  seconds = TimeWithinBound(query, rows);
  ++(seconds.empty() ? counts_.beyond : counts_.measured);
  if (seconds.empty()) known.beyond = options_.seconds;
  for (size_t r = 0; r < seconds.size(); ++r) known.seconds[rows[r]->name] = seconds[r];
  fresh_[key] = known;
  return seconds;
}

std::vector<double> Autotuner::TimeWithinBound(const KernelQuery& query,
                                               std::span<const Kernel* const> rows) {
  if (spent_ >= options_.seconds) return {};
  const Clock::time_point start = Clock::now();
  const std::chrono::duration<double> left(options_.seconds - spent_);
  const auto deadline = start + std::chrono::duration_cast<Clock::duration>(left);
  std::vector<double> seconds =
      time_rows_ ? time_rows_(query, rows, deadline) : TimeRows(query, rows, deadline);
  const double took = std::chrono::duration<double>(Clock::now() - start).count();
  spent_ += took;
  counts_.seconds += took;
  return seconds;
}

void Autotuner::Keep() {
  const std::lock_guard lock(mutex_);
  if (!options_.folder.empty() && !fresh_.empty()) {
    try {
      file_.Add(fresh_);
    } catch (const Error& error) {
      Warn(StrCat(error.what(), "; the times of rows are not kept: the next run measures again"));
    }
  }
  fresh_.clear();
  Tell();
}

void Autotuner::Warn(const std::string& text) {
  if (options_.log == nullptr || std::exchange(warned_, true)) return;
  options_.log->Write(Severity::kWarning, "autotune: " + text);
}

void Autotuner::Tell() {
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
