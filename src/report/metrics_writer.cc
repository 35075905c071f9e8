#include "report/metrics_writer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/json.h"
#include "core/strings.h"
#include "format/file.h"
#include "report/clock.h"

namespace crema {
namespace {

constexpr std::string_view kCsv = "metrics.csv";
constexpr std::string_view kJson = "metrics.jsonl";

const char* NameOf(MetricsRow::Kind kind) {
  return kind == MetricsRow::Kind::kTrain    ? "train"
         : kind == MetricsRow::Kind::kOutput ? "output"
                                             : "test";
}

std::string Milliseconds(double time) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.3f", time);
  return text;
}

std::string CsvNumber(double value) {
  return std::isfinite(value) ? JsonNumber(value) : std::string();
}

// Rounded to 7 digits, the precision of a float: 0.001, not its float approximation.
double RateOf(const MetricsRow& row) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.7g", row.rate);
  return std::strtod(text, nullptr);
}

// Removes line ends, so that files can be split by lines.
std::string CsvText(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20; }, ' ');
  if (text.find_first_of(",\"") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

// Returns the number at `start`, or -1.
int64_t NumberAt(std::string_view line, size_t start) {
  int64_t number = -1;
  if (start > line.size()) return -1;
  std::from_chars(line.data() + start, line.data() + line.size(), number);
  return number;
}

// Returns the iteration of a row of either file; -1 for others, such as the header.
int64_t IterationOf(std::string_view line) {
  constexpr std::string_view kKey = "\"iteration\":";
  if (line.starts_with("{")) {
    const size_t at = line.find(kKey);
    return at == std::string_view::npos ? -1 : NumberAt(line, at + kKey.size());
  }
  return NumberAt(line, std::min(line.find(','), line.size()) + 1);
}

// Truncates the files before they are opened.
RunFolder& CutFiles(RunFolder& folder, int64_t first_iteration) {
  for (const std::string_view name : {kCsv, kJson}) {
    const std::string path = folder.File(std::string(name));
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) continue;
    try {
      const std::string text = ReadFile(path);
      const std::string kept = MetricsBefore(text, first_iteration);
      if (kept.size() != text.size()) WriteFileAtomically(path, kept);
    } catch (const Error& error) {
      folder.WarnOnce(error.what());
    }
  }
  return folder;
}

std::vector<MetricsRow> RowsOf(const std::vector<OutputValue>& outputs, const MetricsRow& common) {
  std::vector<MetricsRow> rows;
  for (const OutputValue& output : outputs) {
    MetricsRow row = common;
    row.element =
        !rows.empty() && rows.back().blob == output.blob ? rows.back().element + 1 : size_t{0};
    row.blob = output.blob;
    row.value = output.value;
    rows.push_back(std::move(row));
  }
  return rows;
}

// Seconds of an iteration, as outputs.
std::vector<OutputValue> MeansOf(const RankPace& ranks) {
  std::vector<OutputValue> means;
  if (ranks.sum.passes.empty()) return means;
  for (const double passes : ranks.sum.passes) {
    means.push_back({"rank_seconds", passes / ranks.iterations});
  }
  means.push_back({"sum_seconds", ranks.sum.sums / ranks.iterations});
  means.push_back({"exposed_sum_seconds", ranks.sum.exposed / ranks.iterations});
  return means;
}

}  // namespace

std::string MetricsCsvHeader() {
  return "kind,iteration,epoch,time,loss,smoothed_loss,lr,samples_per_second,wait_share,net,blob,"
         "element,value\n";
}

std::string CsvLine(const MetricsRow& row) {
  std::string line = StrCat(NameOf(row.kind), ",", row.iteration, ",", CsvNumber(row.epoch), ",",
                            Milliseconds(row.time), ",");
  if (row.kind == MetricsRow::Kind::kTrain) {
    return line + StrCat(CsvNumber(row.loss), ",", CsvNumber(row.smoothed_loss), ",",
                         CsvNumber(RateOf(row)), ",", CsvNumber(row.samples_per_second), ",",
                         CsvNumber(row.wait_share), ",,,,\n");
  }
  const std::string net = row.kind == MetricsRow::Kind::kTest ? StrCat(row.net) : std::string();
  return line + StrCat(",,,,,", net, ",", CsvText(row.blob), ",", row.element, ",",
                       CsvNumber(row.value), "\n");
}

std::string JsonLine(const MetricsRow& row) {
  std::string line =
      StrCat("{\"kind\":\"", NameOf(row.kind), "\",\"iteration\":", row.iteration,
             ",\"epoch\":", JsonNumber(row.epoch), ",\"time\":", Milliseconds(row.time));
  if (row.kind == MetricsRow::Kind::kTrain) {
    if (row.loss_scale > 0) {
      line += StrCat(",\"loss_scale\":", JsonNumber(row.loss_scale),
                     ",\"skipped_updates\":", row.skipped_updates);
    }
    return line + StrCat(",\"loss\":", JsonNumber(row.loss),
                         ",\"smoothed_loss\":", JsonNumber(row.smoothed_loss),
                         ",\"lr\":", JsonNumber(RateOf(row)),
                         ",\"samples_per_second\":", JsonNumber(row.samples_per_second),
                         ",\"wait_share\":", JsonNumber(row.wait_share), "}\n");
  }
  if (row.kind == MetricsRow::Kind::kTest) line += StrCat(",\"net\":", row.net);
  return line + StrCat(",\"blob\":", JsonString(row.blob), ",\"element\":", row.element,
                       ",\"value\":", JsonNumber(row.value), "}\n");
}

std::string MetricsBefore(const std::string& text, int64_t iteration) {
  std::string kept;
  size_t begin = 0;
  for (size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string_view line = std::string_view(text).substr(begin, end + 1 - begin);
    if (IterationOf(line) < iteration) kept += line;
  }
  return kept;
}

bool IsRowDue(const IterationReport& report, int64_t interval) {
  if (report.iteration + 1 == report.max_iterations) return true;
  return interval > 0 ? report.iteration % interval == 0 : report.displayed;
}

MetricsWriter::MetricsWriter(RunFolder& folder, int64_t first_iteration, int64_t interval)
    : interval_(interval),
      csv_(CutFiles(folder, first_iteration), std::string(kCsv), MetricsCsvHeader),
      json_(folder, std::string(kJson), [] { return std::string(); }) {}

void MetricsWriter::Write(const std::vector<MetricsRow>& rows) {
  std::string csv;
  std::string json;
  for (const MetricsRow& row : rows) {
    csv += CsvLine(row);
    json += JsonLine(row);
  }
  if (rows.empty()) return;
  csv_.Append(csv);
  json_.Append(json);
}

void MetricsWriter::OnIteration(const IterationReport& report) {
  pace_.Add(report);
  ranks_.Add(report);
  if (!IsRowDue(report, interval_)) return;
  MetricsRow common{.iteration = report.iteration, .epoch = report.epoch, .time = UnixTime()};
  common.kind = MetricsRow::Kind::kOutput;
  std::vector<MetricsRow> rows = RowsOf(report.outputs, common);
  MetricsRow row = common;
  row.kind = MetricsRow::Kind::kTrain;
  row.loss = report.loss;
  row.smoothed_loss = report.smoothed_loss;
  row.rate = report.rate;
  row.samples_per_second = pace_.SamplesPerSecond();
  row.wait_share = pace_.WaitShare();
  row.loss_scale = report.loss_scale;
  row.skipped_updates = report.skipped_updates;
  rows.insert(rows.begin(), std::move(row));
  std::ranges::move(RowsOf(MeansOf(ranks_), common), std::back_inserter(rows));
  pace_ = {};
  ranks_ = {};
  Write(rows);
}

void MetricsWriter::OnSnapshotStart() {
  csv_.Sync();
  json_.Sync();
}

void MetricsWriter::OnTest(const TestReport& report) {
  const MetricsRow common{.kind = MetricsRow::Kind::kTest,
                          .iteration = report.iteration,
                          .epoch = report.epoch,
                          .time = UnixTime(),
                          .net = report.net};
  std::vector<MetricsRow> rows = RowsOf(report.outputs, common);
  if (report.has_loss) {
    rows.push_back(common);
    rows.back().value = report.loss;
  }
  Write(rows);
}

}  // namespace crema
