#include "report/ranking.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/metric_name.h"
#include "core/strings.h"
#include "report/charts.h"

namespace crema::tools {

using Kind = MetricSeries::Kind;

std::optional<MetricPoint> LastOf(const MetricSeries* series) {
  if (series == nullptr) return std::nullopt;
  for (size_t i = series->points.size(); i-- > 0;) {
    if (std::isfinite(series->points[i].value)) return series->points[i];
  }
  return std::nullopt;
}

std::optional<MetricPoint> BestOf(const MetricSeries& series, bool smallest) {
  std::optional<MetricPoint> best;
  for (const MetricPoint& point : series.points) {
    if (!std::isfinite(point.value)) continue;
    const bool better = !best || (smallest ? point.value < best->value : point.value > best->value);
    if (better) best = point;
  }
  return best;
}

const MetricSeries* ResultNamed(const RunData& run, const std::string& name) {
  for (const MetricSeries* series : TestResults(run)) {
    if (ResultName(*series, run) == name) return series;
  }
  return nullptr;
}

std::vector<std::string> ResultNames(const std::vector<const RunData*>& runs) {
  std::vector<std::string> names;
  for (const RunData* run : runs) {
    for (const MetricSeries* series : TestResults(*run)) {
      const std::string name = ResultName(*series, *run);
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

namespace {

// Returns the name of the result to order by; empty without tests.
std::string NameToRankBy(const std::vector<const RunData*>& runs) {
  std::string best;
  int64_t most = 0;
  bool best_is_small = true;
  for (const std::string& name : ResultNames(runs)) {
    const auto count = std::ranges::count_if(
        runs, [&](const RunData* run) { return ResultNamed(*run, name) != nullptr; });
    const bool smallest = SmallerIsBetter(name);
    const bool better =
        best.empty() || (best_is_small && !smallest) || (best_is_small == smallest && count > most);
    if (!better) continue;
    best = name;
    most = count;
    best_is_small = smallest;
  }
  return best;
}

// Returns a number that is smaller for a better run.
double RankOf(const RunData& run, const std::string& name) {
  constexpr double kLast = std::numeric_limits<double>::infinity();
  if (name.empty()) {
    const MetricSeries* smoothed = run.Find(Kind::kTrain, "smoothed_loss");
    const auto loss = LastOf(smoothed != nullptr ? smoothed : run.Find(Kind::kTrain, "loss"));
    return loss ? loss->value : kLast;
  }
  const MetricSeries* series = ResultNamed(run, name);
  const bool smallest = SmallerIsBetter(name);
  const auto best = series == nullptr ? std::nullopt : BestOf(*series, smallest);
  if (!best) return kLast;
  return smallest ? best->value : -best->value;
}

}  // namespace

std::string SortByBest(std::vector<ReportedRun>* runs) {
  std::vector<const RunData*> data;
  for (const ReportedRun& reported : *runs) data.push_back(&reported.run);
  const std::string name = NameToRankBy(data);
  std::ranges::stable_sort(*runs, {}, [&](const ReportedRun& r) { return RankOf(r.run, name); });
  return name.empty() ? "last training loss" : "best test " + name;
}

}  // namespace crema::tools
