#include "common/run_data.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>
#include <tuple>

#include "common/csv.h"
#include "common/json_rows.h"
#include "core/error.h"
#include "core/strings.h"
#include "format/file.h"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;
using Kind = MetricSeries::Kind;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr const char* kTrainColumns[] = {"loss", "smoothed_loss", "lr", "samples_per_second",
                                         "wait_share"};

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

double NumberOf(const JsonMembers& row, const std::string& name, double otherwise = kUnknown) {
  const auto found = row.find(name);
  if (found == row.end()) return otherwise;
  double value = otherwise;
  const std::string& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : otherwise;
}

// Sorts rows, in file order, into series.
class SeriesBuilder {
 public:
  explicit SeriesBuilder(RunData* run) : run_(run) {}

  void Add(const JsonMembers& row) {
    const double iteration = NumberOf(row, "iteration");
    const auto kind = row.find("kind");
    if (kind == row.end() || std::isnan(iteration)) {
      ++run_->unreadable;
      return;
    }
    if (kind->second == "train") {
      for (const char* column : kTrainColumns) {
        // A row omits a non-finite loss; the curve has a gap there.
        if (row.contains(column) || column == kTrainColumns[0]) Append(Kind::kTrain, column, row);
      }
    } else if (kind->second == "test" || kind->second == "output") {
      const auto blob = row.find("blob");
      Append(kind->second == "test" ? Kind::kTest : Kind::kTrainOutput,
             blob == row.end() ? "" : blob->second, row);
    }
  }

 private:
  void Append(Kind kind, const std::string& name, const JsonMembers& row) {
    const auto net = static_cast<int64_t>(NumberOf(row, "net", 0));
    const auto element = static_cast<int64_t>(NumberOf(row, "element", 0));
    const auto key = std::make_tuple(kind, net, name, element);
    const auto [place, is_new] = index_.try_emplace(key, run_->series.size());
    if (is_new) {
      run_->series.push_back(
          {.kind = kind, .name = name, .net = net, .element = element, .points = {}});
    }
    run_->series[place->second].points.push_back(
        {.iteration = NumberOf(row, "iteration"),
         .epoch = NumberOf(row, "epoch"),
         .seconds = SecondsOf(row),
         .value = NumberOf(row, kind == Kind::kTrain ? name : "value")});
  }

  // Time of work: ignores a clock that is set back, and the pause before the run was resumed.
  double SecondsOf(const JsonMembers& row) {
    const double time = NumberOf(row, "time");
    if (std::isnan(time)) return NumberOf(row, "seconds");
    if (time > clock_) {
      double begin = clock_;
      for (const double start : run_->starts) {
        if (start > begin && start < time) begin = start;
      }
      seconds_ += time - begin;
    }
    clock_ = time;
    return seconds_;
  }

  RunData* run_;
  double clock_ = kUnknown;  // of the previous row
  double seconds_ = 0;
  std::map<std::tuple<Kind, int64_t, std::string, int64_t>, size_t> index_;
};

void ReadCsv(const std::string& path, RunData* run) {
  const std::string text = ReadFile(path);
  // A run in progress, or a killed one, may have an incomplete last line.
  const std::vector<std::vector<std::string>> lines =
      ParseCsv(std::string_view(text).substr(0, text.rfind('\n') + 1));
  if (text.empty() || (!lines.empty() && std::ranges::count(lines[0], "iteration") == 0)) {
    run->faults.push_back(path + (text.empty() ? " is empty" : " is no table of a run"));
  }
  SeriesBuilder builder(run);
  for (size_t i = 1; i < lines.size(); ++i) {
    JsonMembers row;
    for (size_t c = 0; c < std::min(lines[i].size(), lines[0].size()); ++c) {
      if (!lines[i][c].empty()) row[lines[0][c]] = lines[i][c];
    }
    builder.Add(row);
  }
}

void ReadJsonLines(const std::string& path, RunData* run) {
  SeriesBuilder builder(run);
  for (const std::string& line : Split(ReadFile(path), '\n')) {
    if (Trim(line).empty()) continue;
    const std::optional<JsonMembers> row = ParseJsonMembers(line);
    if (row) {
      builder.Add(*row);
    } else {
      ++run->unreadable;
    }
  }
}

// Returns the seconds since 1970 of "2026-01-31T08:09:15.123456Z"; unknown for other texts.
double UnixTimeOf(const std::string& utc) {
  tm parts{};
  const char* rest = strptime(utc.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) return kUnknown;
  return static_cast<double>(timegm(&parts)) + std::strtod(rest, nullptr);
}

std::vector<double> ReadStarts(const std::string& path) {
  std::vector<double> starts;
  for (const std::string& line : Split(ReadFile(path), '\n')) {
    const JsonMembers start = ParseJsonMembers(line).value_or(JsonMembers());
    const auto time = start.find("time");
    if (time == start.end()) continue;
    if (const double seconds = UnixTimeOf(time->second); std::isfinite(seconds)) {
      starts.push_back(seconds);
    }
  }
  return starts;
}

}  // namespace

const MetricSeries* RunData::Find(MetricSeries::Kind kind, const std::string& wanted) const {
  const auto found = std::ranges::find_if(
      series, [&](const MetricSeries& s) { return s.kind == kind && s.name == wanted; });
  return found == series.end() ? nullptr : &*found;
}

bool HoldsMetrics(const std::string& folder) {
  return Exists(fs::path(folder) / "metrics.csv") || Exists(fs::path(folder) / "metrics.jsonl");
}

RunData ReadRun(const std::string& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    Fail(ErrorCode::kNotFound,
         StrCat("'", folder, "' is not a folder; give the folder of a run (train --run=DIR)"));
  }
  RunData run;
  run.folder = folder;
  fs::path path = fs::path(folder).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  run.name = path.filename().string();
  if (run.name == "." || run.name == "..") run.name = fs::absolute(path).filename().string();
  const fs::path in(folder);
  if (Exists(in / "starts.jsonl")) run.starts = ReadStarts((in / "starts.jsonl").string());
  if (Exists(in / "metrics.csv")) {
    ReadCsv((in / "metrics.csv").string(), &run);
  } else if (Exists(in / "metrics.jsonl")) {
    ReadJsonLines((in / "metrics.jsonl").string(), &run);
  }
  if (Exists(in / "run.json")) {
    const std::string facts = (in / "run.json").string();
    const std::optional<JsonMembers> members = ParseJsonMembers(ReadFile(facts));
    if (!members) run.faults.push_back(facts + " is damaged: what it says of the run is left out");
    run.facts = members.value_or(JsonMembers());
  }
  if (Exists(in / "solver.prototxt")) run.solver_text = ReadFile((in / "solver.prototxt").string());
  run.hyperparameters = ReadHyperparameters(folder);
  return run;
}

std::vector<MetricPoint> Thinned(const std::vector<MetricPoint>& points, size_t most) {
  if (points.size() <= most || most < 4) return points;
  std::vector<MetricPoint> thin;
  const size_t stretches = most / 2;
  for (size_t s = 0; s < stretches; ++s) {
    const size_t begin = s * points.size() / stretches;
    const size_t end = (s + 1) * points.size() / stretches;
    size_t least = begin;
    size_t largest = begin;
    for (size_t i = begin; i < end; ++i) {
      if (std::isnan(points[i].value)) least = largest = i;  // keeps gaps
      if (points[i].value < points[least].value) least = i;
      if (points[i].value > points[largest].value) largest = i;
    }
    thin.push_back(points[std::min(least, largest)]);
    if (least != largest) thin.push_back(points[std::max(least, largest)]);
  }
  if (thin.front().iteration != points.front().iteration) thin.front() = points.front();
  thin.back() = points.back();
  return thin;
}

double CompletedIterations(const RunData& run) {
  double completed = -1;
  for (const MetricSeries& series : run.series) {
    if (series.points.empty()) continue;
    // A test at N is made before iteration N.
    const int after = series.kind == MetricSeries::Kind::kTrain ? 1 : 0;
    completed = std::max(completed, series.points.back().iteration + after);
  }
  return completed;
}

}  // namespace crema::tools
