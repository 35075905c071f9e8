#include "sweep/trials.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "common/csv.h"
#include "common/metric_name.h"
#include "common/run_data.h"
#include "core/error.h"
#include "core/strings.h"
#include "format/file.h"

namespace crema::tools {
namespace {

using Kind = MetricSeries::Kind;

constexpr const char* kLoss = "loss";
constexpr const char* kHeader = "trial,length,exit_code";

std::optional<int64_t> ParseWhole(const std::string& text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || at != end) return std::nullopt;
  return value;
}

// Returns the lines of trials.csv that can be read; a killed process may leave half a line.
std::vector<TrialEnd> ReadEnds(const std::string& path) {
  std::vector<TrialEnd> ends;
  for (const std::vector<std::string>& fields : ParseCsv(ReadFile(path))) {
    if (fields.size() != 3) continue;
    const std::optional<int64_t> trial = ParseWhole(fields[0]);
    const std::optional<int64_t> length = ParseWhole(fields[1]);
    const std::optional<int64_t> exit_code = ParseWhole(fields[2]);
    if (!trial || !length || !exit_code || *trial < 1) continue;
    ends.push_back({static_cast<size_t>(*trial - 1), *length, static_cast<int>(*exit_code)});
  }
  return ends;
}

const MetricSeries* FindMetric(const RunData& run, const std::string& name) {
  const MetricSeries* series = run.Find(Kind::kTest, name);
  if (series == nullptr && name == kLoss) series = run.Find(Kind::kTrain, "smoothed_loss");
  return series;
}

}  // namespace

std::vector<Round> HalvingRounds(int64_t trials, int64_t keep, int64_t longest, int64_t step) {
  std::vector<Round> rounds;
  for (int64_t count = trials;; count = (count + keep - 1) / keep) {
    rounds.push_back({.trials = count, .length = longest});
    if (count == 1) break;
  }
  for (size_t i = rounds.size() - 1; i-- > 0;) {
    rounds[i].length = (rounds[i + 1].length + keep - 1) / keep;
  }
  for (Round& round : rounds) {
    round.length = std::min((round.length + step - 1) / step * step, longest);
  }
  return rounds;
}

Metric ChooseMetric(const std::vector<std::string>& tested, const std::string& name) {
  std::string chosen = name;
  if (chosen.empty()) {
    const bool has_accuracy = std::ranges::find(tested, "accuracy") != tested.end();
    chosen = has_accuracy ? "accuracy" : tested.empty() ? kLoss : tested.front();
  }
  const bool is_known = chosen == kLoss || std::ranges::find(tested, chosen) != tested.end();
  if (!is_known) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--metric: the tests have no output '", chosen, "'", DidYouMean(chosen, tested),
                "; they have ", tested.empty() ? "none" : Join(tested, ", ")));
  }
  return {.name = chosen, .is_smaller_better = SmallerIsBetter(chosen)};
}

Score ScoreOfRun(const std::string& folder, const Metric& metric) {
  const RunData run = ReadRun(folder);
  Score score;
  const MetricSeries* series = FindMetric(run, metric.name);
  if (series == nullptr) return score;
  for (const MetricPoint& point : series->points) {
    if (!std::isfinite(point.value)) continue;
    score.last = point.value;
    const bool is_better =
        std::isnan(score.best) ||
        (metric.is_smaller_better ? point.value < score.best : point.value > score.best);
    if (!is_better) continue;
    score.best = point.value;
    score.best_iteration = point.iteration;
  }
  return score;
}

SweepRecord::SweepRecord(std::string folder, const std::string& definition)
    : folder_(std::move(folder)) {
  const std::string file = folder_ + "/sweep.json";
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored)) {
    if (ReadFile(file) != definition) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("'", folder_, "' holds another sweep (see ", file,
                  "); repeat its flags to resume it, or choose another folder with -o"));
    }
    const std::string ends = folder_ + "/trials.csv";
    Lock();
    if (std::filesystem::exists(ends, ignored)) ends_ = ReadEnds(ends);
    return;
  }
  if (std::filesystem::exists(folder_, ignored) &&
      !(std::filesystem::is_directory(folder_, ignored) &&
        std::filesystem::is_empty(folder_, ignored))) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("'", folder_, "' exists and holds no sweep; choose another folder with -o"));
  }
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) FailWrite(folder_, error.value(), 0);
  WriteFileAtomically(file, definition);
  Lock();
}

void SweepRecord::Lock() {
  if (lock_.Take(folder_ + "/sweep.json")) return;  // a file that is never written again
  Fail(ErrorCode::kInvalidArgument,
       StrCat("another process runs the sweep in '", folder_, "'; wait for its end"));
}

const TrialEnd* SweepRecord::Find(size_t trial, int64_t length) const {
  const auto found = std::ranges::find_if(
      ends_, [&](const TrialEnd& end) { return end.trial == trial && end.length == length; });
  return found == ends_.end() ? nullptr : &*found;
}

void SweepRecord::Add(const TrialEnd& end) {
  ends_.push_back(end);
  std::string text = StrCat(kHeader, "\n");
  for (const TrialEnd& one : ends_) {
    text += StrCat(one.trial + 1, ",", one.length, ",", one.exit_code, "\n");
  }
  WriteFileAtomically(folder_ + "/trials.csv", text);
}

std::string SweepRecord::FolderOf(size_t trial) const {
  char name[32];
  std::snprintf(name, sizeof(name), "/trial_%03zu", trial + 1);
  return folder_ + name;
}

}  // namespace crema::tools
