#include "report/charts.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "common/json.h"
#include "core/strings.h"

namespace crema::tools {
namespace {

using Kind = MetricSeries::Kind;
using Style = RunCurve::Style;

constexpr size_t kMostPoints = 1200;    // per curve; more than a screen has columns
constexpr int64_t kMostElements = 8;    // per output
constexpr const char* kTotalLoss = "";  // name of its series in a test

// The total loss is the same number, computed in another way.
bool IsSameValue(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::abs(a - b) <= 1e-4 * std::max(1.0, std::abs(a));
}

// Returns true if `whole` has every point of `part`, which may have fewer rows.
bool IsPartOf(const MetricSeries& part, const MetricSeries& whole) {
  size_t w = 0;
  for (const MetricPoint& point : part.points) {
    while (w < whole.points.size() && whole.points[w].iteration < point.iteration) ++w;
    if (w == whole.points.size() || whole.points[w].iteration != point.iteration) return false;
    if (!IsSameValue(point.value, whole.points[w].value)) return false;
  }
  return !part.points.empty();
}

const MetricSeries* TotalLoss(const RunData& run, Kind kind, int64_t net) {
  const std::string name = kind == Kind::kTest ? kTotalLoss : "loss";
  const Kind of = kind == Kind::kTest ? Kind::kTest : Kind::kTrain;
  for (const MetricSeries& series : run.series) {
    if (series.kind == of && series.name == name && series.net == net) return &series;
  }
  return nullptr;
}

// Returns true for an output that equals the total loss.
bool IsCopyOfTotalLoss(const RunData& run, const MetricSeries& series) {
  if (series.kind == Kind::kTrain || series.name == kTotalLoss) return false;
  const MetricSeries* total = TotalLoss(run, series.kind, series.net);
  return total != nullptr && total != &series && IsPartOf(series, *total);
}

// Returns true for the loss of a test net that logs no total loss, if the training shows that it is
// the total loss: the net has one loss.
bool IsTotalLossOfTest(const RunData& run, const MetricSeries& series) {
  if (series.kind != Kind::kTest || TotalLoss(run, Kind::kTest, series.net) != nullptr)
    return false;
  const MetricSeries* output = run.Find(Kind::kTrainOutput, series.name);
  return output != nullptr && IsCopyOfTotalLoss(run, *output);
}

bool BelongsToLossChart(const RunData& run, const MetricSeries& series) {
  return IsCopyOfTotalLoss(run, series) || IsTotalLossOfTest(run, series);
}

bool HasSeveral(const RunData& run, int64_t MetricSeries::*member, const MetricSeries& like) {
  return std::ranges::any_of(run.series, [&](const MetricSeries& s) {
    const bool same_output = member == &MetricSeries::net || s.name == like.name;
    return s.kind == like.kind && same_output && s.*member > 0;
  });
}

std::string Label(const RunData& run, const MetricSeries& series, const std::string& word) {
  std::string label = word;
  if (HasSeveral(run, &MetricSeries::net, series)) label += StrCat(" net ", series.net);
  if (HasSeveral(run, &MetricSeries::element, series)) label += StrCat(" [", series.element, "]");
  return label;
}

void Append(const std::vector<RunData>& runs, size_t r, const MetricSeries* series,
            const std::string& label, Style style, Chart* chart) {
  if (series == nullptr) return;
  const bool known = std::ranges::any_of(
      series->points, [](const MetricPoint& p) { return std::isfinite(p.value); });
  if (!known) return;
  chart->series.push_back({.run = r,
                           .label = Label(runs[r], *series, label),
                           .style = style,
                           .points = Thinned(series->points, kMostPoints)});
}

Chart LossChart(const std::vector<RunData>& runs) {
  Chart chart{.title = "Total loss", .note = {}, .smooth = true, .series = {}};
  for (size_t r = 0; r < runs.size(); ++r) {
    const MetricSeries* each = runs[r].Find(Kind::kTrain, "loss");
    const MetricSeries* smoothed = runs[r].Find(Kind::kTrain, "smoothed_loss");
    // With average_loss 1 they are the same.
    const bool averaged = each != nullptr && smoothed != nullptr && !IsPartOf(*smoothed, *each);
    if (averaged) Append(runs, r, each, "train, each", Style::kFaint, &chart);
    Append(runs, r, smoothed != nullptr ? smoothed : each, "train", Style::kLine, &chart);
    for (const MetricSeries& series : runs[r].series) {
      if (series.kind != Kind::kTest) continue;
      if (series.name != kTotalLoss && !IsTotalLossOfTest(runs[r], series)) continue;
      Append(runs, r, &series, "test", Style::kMarked, &chart);
    }
  }
  return chart;
}

Chart TrainChart(const std::vector<RunData>& runs, const std::string& column,
                 const std::string& title) {
  Chart chart{.title = title, .note = {}, .smooth = true, .series = {}};
  for (size_t r = 0; r < runs.size(); ++r) {
    Append(runs, r, runs[r].Find(Kind::kTrain, column), "train", Style::kLine, &chart);
  }
  return chart;
}

Chart OutputChart(const std::vector<RunData>& runs, const std::string& blob) {
  Chart chart{.title = blob, .note = {}, .smooth = true, .series = {}};
  for (size_t r = 0; r < runs.size(); ++r) {
    int64_t elements = 0;
    for (const MetricSeries& series : runs[r].series) {
      if (series.kind == Kind::kTrain || series.name != blob) continue;
      if (BelongsToLossChart(runs[r], series)) continue;
      elements = std::max(elements, series.element + 1);
      if (series.element >= kMostElements) continue;
      const bool test = series.kind == Kind::kTest;
      Append(runs, r, &series, test ? "test" : "train", test ? Style::kMarked : Style::kLine,
             &chart);
    }
    if (elements > kMostElements) {
      chart.note = StrCat("the first ", kMostElements, " of ", elements, " elements");
    }
  }
  return chart;
}

// Outputs of tests come first.
std::vector<std::string> OutputNames(const std::vector<RunData>& runs) {
  std::vector<std::string> names;
  for (const Kind kind : {Kind::kTest, Kind::kTrainOutput}) {
    for (const RunData& run : runs) {
      for (const MetricSeries& series : run.series) {
        if (series.kind != kind || series.name == kTotalLoss) continue;
        if (std::ranges::find(names, series.name) == names.end()) names.push_back(series.name);
      }
    }
  }
  return names;
}

std::string ShortNumber(double value) {
  if (!std::isfinite(value)) return "null";
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", value);
  return text;
}

// Formats the numbers of one column, in brackets.
std::string Column(const std::vector<MetricPoint>& points, double MetricPoint::*member) {
  std::string text = "[";
  for (const MetricPoint& point : points) {
    if (text.size() > 1) text += ',';
    text += member == &MetricPoint::iteration ? std::to_string(static_cast<int64_t>(point.*member))
                                              : ShortNumber(point.*member);
  }
  return text + "]";
}

std::string SeriesJson(const RunCurve& series) {
  const char* style = series.style == Style::kLine    ? "line"
                      : series.style == Style::kFaint ? "faint"
                                                      : "marked";
  return StrCat("{\"run\":", series.run, ",\"label\":", JsonString(series.label), ",\"style\":\"",
                style, "\",\"iteration\":", Column(series.points, &MetricPoint::iteration),
                ",\"epoch\":", Column(series.points, &MetricPoint::epoch),
                ",\"seconds\":", Column(series.points, &MetricPoint::seconds),
                ",\"value\":", Column(series.points, &MetricPoint::value), "}");
}

}  // namespace

std::vector<Chart> ChartsOf(const std::vector<RunData>& runs) {
  std::vector<Chart> charts = {LossChart(runs)};
  for (const std::string& blob : OutputNames(runs)) charts.push_back(OutputChart(runs, blob));
  charts.push_back(TrainChart(runs, "lr", "Learning rate"));
  charts.back().smooth = false;
  charts.push_back(TrainChart(runs, "samples_per_second", "Samples per second"));
  charts.push_back(TrainChart(runs, "wait_share", "Share of time waiting for data"));
  std::erase_if(charts, [](const Chart& chart) { return chart.series.empty(); });
  return charts;
}

std::string ChartsJson(const std::vector<RunData>& runs, const std::vector<Chart>& charts) {
  std::vector<std::string> names;
  for (const RunData& run : runs) names.push_back(JsonString(run.name));
  std::vector<std::string> texts;
  for (const Chart& chart : charts) {
    std::vector<std::string> series;
    for (const RunCurve& one : chart.series) series.push_back(SeriesJson(one));
    texts.push_back(StrCat("{\"title\":", JsonString(chart.title),
                           ",\"smooth\":", chart.smooth ? "true" : "false", ",\"series\":[",
                           Join(series, ","), "]}"));
  }
  return StrCat("{\"runs\":[", Join(names, ","), "],\"charts\":[", Join(texts, ",\n"), "]}");
}

std::vector<const MetricSeries*> TestResults(const RunData& run) {
  std::vector<const MetricSeries*> results;
  for (const MetricSeries& series : run.series) {
    if (series.kind != Kind::kTest || series.element >= kMostElements) continue;
    if (IsCopyOfTotalLoss(run, series)) continue;
    results.push_back(&series);
  }
  return results;
}

std::string ResultName(const MetricSeries& series, const RunData& run) {
  return Label(run, series, series.name == kTotalLoss ? "loss" : series.name);
}

}  // namespace crema::tools
