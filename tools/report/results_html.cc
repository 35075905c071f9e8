// The tables of results and settings: one column per run, one row per fact.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "common/html_text.h"
#include "common/metric_name.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/prototxt.h"
#include "report/charts.h"
#include "report/page.h"
#include "report/ranking.h"
#include "solvers/snapshot.h"
#include "solvers/snapshot_set.h"

namespace crema::tools {
namespace {

using Kind = MetricSeries::Kind;

struct Cell {
  std::string text;
  std::string small = {};                                   // secondary text
  double value = std::numeric_limits<double>::quiet_NaN();  // to find the best of a row
};

struct Row {
  std::string name;
  std::vector<Cell> cells;
  enum class Best { kNone, kSmallest, kLargest } best = Best::kNone;
};

// Returns the last iteration of all rows of the run.
MetricPoint EndOf(const RunData& run) {
  MetricPoint end{.iteration = -1, .epoch = 0, .seconds = 0, .value = 0};
  for (const MetricSeries& series : run.series) {
    if (series.points.empty()) continue;
    const MetricPoint& last = series.points.back();
    if (last.iteration >= end.iteration) end = last;
  }
  return end;
}

Cell NumberCell(const std::optional<MetricPoint>& point, bool with_place) {
  if (!point) return {.text = "–"};
  Cell cell{.text = NumberForPeople(point->value), .value = point->value};
  if (with_place) cell.small = "at " + NumberForPeople(point->iteration);
  return cell;
}

Row FactRow(const std::vector<RunData>& runs, const std::string& name, const std::string& fact) {
  Row row{.name = name, .cells = {}};
  for (const RunData& run : runs) {
    const auto found = run.facts.find(fact);
    row.cells.push_back({.text = found == run.facts.end() ? "–" : found->second});
  }
  return row;
}

Row RowOf(const std::vector<RunData>& runs, const std::string& name,
          const std::function<Cell(const RunData&)>& cell) {
  Row row{.name = name, .cells = {}};
  for (const RunData& run : runs) row.cells.push_back(cell(run));
  return row;
}

std::string IterationText(const RunData& run) {
  const double completed = CompletedIterations(run);
  if (completed < 0) return "–";
  const std::string done = NumberForPeople(completed);
  const auto most = run.facts.find("max_iter");
  if (most == run.facts.end() || most->second.empty() || most->second == "0") return done;
  return StrCat(done, " of ", NumberForPeople(std::strtod(most->second.c_str(), nullptr)));
}

double MeanOf(const MetricSeries* series) {
  if (series == nullptr) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  int count = 0;
  for (const MetricPoint& point : series->points) {
    if (!std::isfinite(point.value)) continue;
    sum += point.value;
    ++count;
  }
  return count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / count;
}

// Returns the day of the first start, and its time and the number of resumes.
Cell StartCell(const RunData& run) {
  if (run.starts.empty()) return {.text = "–"};
  const std::string minute = MinuteForPeople(run.starts.front());
  constexpr size_t kDay = 10;
  Cell cell{.text = minute.substr(0, kDay), .small = minute.substr(kDay + 1)};
  const size_t resumes = run.starts.size() - 1;
  if (resumes > 0) {
    cell.small += resumes == 1 ? ", resumed once" : StrCat(", resumed ", resumes, " times");
  }
  return cell;
}

// Returns the newest weights of the run, best ones first, with their folder.
Cell WeightsCell(const RunData& run) {
  namespace fs = std::filesystem;
  SolverParameter solver;
  std::vector<Problem> ignored;
  ParseText(run.solver_text, "", &solver, nullptr, &ignored);
  const auto folder = run.facts.find("working_folder");
  const fs::path prefix =
      fs::path(folder == run.facts.end() ? "" : folder->second) / solver.snapshot_prefix();
  if (solver.snapshot_prefix().empty()) return {.text = "–"};
  solver.set_snapshot_prefix(prefix.string());
  std::error_code error;
  fs::path weights = BestPath(solver);
  if (!solver.has_snapshot_best() || !fs::exists(weights, error)) {
    const std::vector<SnapshotFile> snapshots = ListSnapshots(prefix.string());
    if (snapshots.empty()) return {.text = "–"};
    weights = PathsOfState(snapshots.back().state).model;
  }
  return {.text = weights.filename().string(), .small = "in " + weights.parent_path().string()};
}

void AddRunRows(const std::vector<RunData>& runs, std::vector<Row>* rows) {
  rows->push_back(RowOf(runs, "Weights", WeightsCell));
  rows->push_back(RowOf(runs, "Started", StartCell));
  rows->push_back(RowOf(runs, "Iterations",
                        [](const RunData& run) { return Cell{.text = IterationText(run)}; }));
  rows->push_back(RowOf(runs, "Epochs", [](const RunData& run) {
    return Cell{.text = NumberForPeople(EndOf(run).epoch)};
  }));
  rows->push_back(RowOf(runs, "Time", [](const RunData& run) {
    return Cell{.text = DurationForPeople(EndOf(run).seconds)};
  }));
  rows->push_back(RowOf(runs, "Samples per second", [](const RunData& run) {
    return Cell{
        .text = NumberForPeople(std::round(MeanOf(run.Find(Kind::kTrain, "samples_per_second"))))};
  }));
  rows->push_back(RowOf(runs, "Training loss, last", [](const RunData& run) {
    const MetricSeries* smoothed = run.Find(Kind::kTrain, "smoothed_loss");
    return NumberCell(LastOf(smoothed != nullptr ? smoothed : run.Find(Kind::kTrain, "loss")),
                      false);
  }));
  rows->back().best = Row::Best::kSmallest;
}

void AddTestRows(const std::vector<RunData>& runs, std::vector<Row>* rows) {
  std::vector<const RunData*> data;
  for (const RunData& run : runs) data.push_back(&run);
  for (const std::string& name : ResultNames(data)) {
    const bool smallest = SmallerIsBetter(name);
    for (const bool best : {true, false}) {
      Row row =
          RowOf(runs, StrCat("Test ", name, best ? ", best" : ", last"), [&](const RunData& run) {
            const MetricSeries* series = ResultNamed(run, name);
            if (series == nullptr) return Cell{.text = "–"};
            return NumberCell(best ? BestOf(*series, smallest) : LastOf(series), best);
          });
      row.best = smallest ? Row::Best::kSmallest : Row::Best::kLargest;
      rows->push_back(std::move(row));
    }
  }
}

// Marks the best of several comparable cells; none if there is nothing to compare.
std::vector<bool> BestCells(const Row& row) {
  std::vector<bool> best(row.cells.size(), false);
  const Cell* top = nullptr;
  size_t known = 0;
  for (const Cell& cell : row.cells) {
    if (std::isnan(cell.value)) continue;
    ++known;
    const bool smallest = row.best == Row::Best::kSmallest;
    if (top == nullptr || (smallest ? cell.value < top->value : cell.value > top->value)) {
      top = &cell;
    }
  }
  if (row.best == Row::Best::kNone || known < 2) return best;
  for (size_t i = 0; i < best.size(); ++i) best[i] = row.cells[i].text == top->text;
  return best;
}

bool IsEmpty(const Row& row) {
  return std::ranges::all_of(row.cells, [](const Cell& cell) { return cell.text == "–"; });
}

bool Differs(const Row& row) {
  return std::ranges::any_of(row.cells,
                             [&](const Cell& cell) { return cell.text != row.cells[0].text; });
}

Row HyperparameterRow(const std::vector<RunData>& runs, const std::string& name) {
  return RowOf(runs, name, [&](const RunData& run) {
    const std::string value = run.hyperparameters.Find(name);
    const bool is_set_by_path = name.find('.') != std::string::npos;
    return Cell{.text = !value.empty() ? value : is_set_by_path ? "as in the file" : "–"};
  });
}

std::vector<std::string> NamesOf(
    const std::vector<RunData>& runs,
    std::vector<std::pair<std::string, std::string>> Hyperparameters::*part) {
  std::vector<std::string> names;
  for (const RunData& run : runs) {
    for (const auto& [name, value] : run.hyperparameters.*part) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

// Rows of what was chosen for the runs. Fields of little interest are listed if they differ.
std::vector<Row> SettingRows(const std::vector<RunData>& runs) {
  std::vector<Row> rows = {FactRow(runs, "Net", "net"), FactRow(runs, "Solver", "solver_type")};
  for (const std::string& name : NamesOf(runs, &Hyperparameters::main)) {
    rows.push_back(HyperparameterRow(runs, name));
  }
  for (const std::string& name : NamesOf(runs, &Hyperparameters::others)) {
    Row row = HyperparameterRow(runs, name);
    if (Differs(row)) rows.push_back(std::move(row));
  }
  rows.push_back(FactRow(runs, "max_iter", "max_iter"));
  rows.push_back(FactRow(runs, "Threads", "threads"));
  rows.push_back(FactRow(runs, "Seed", "seed"));
  std::erase_if(rows, IsEmpty);
  return rows;
}

// A long path of a field may break after a dot.
std::string RowName(const std::string& name) {
  std::string html;
  for (const std::string& part : Split(name, '.')) {
    html += (html.empty() ? "" : ".<wbr>") + HtmlText(part);
  }
  return html;
}

std::string TableHtml(const std::vector<RunData>& runs, const std::vector<Row>& rows,
                      bool mark_differences) {
  std::string html = "<div class=\"card scroll\"><table class=\"results\"><thead><tr><th></th>";
  for (size_t r = 0; r < runs.size(); ++r) {
    html +=
        StrCat("<th scope=\"col\" class=\"c", r % 8, "\"><i></i>", HtmlText(runs[r].name), "</th>");
  }
  html += "</tr></thead><tbody>";
  for (const Row& row : rows) {
    const std::vector<bool> best = BestCells(row);
    const bool marked = mark_differences && Differs(row);
    html +=
        StrCat(marked ? "<tr class=\"differs\">" : "<tr>", "<th scope=\"row\">", RowName(row.name),
               marked ? " <b title=\"differs between the runs\">≠</b>" : "", "</th>");
    for (size_t i = 0; i < row.cells.size(); ++i) {
      html += StrCat(best[i] ? "<td class=\"best\">" : "<td>", HtmlText(row.cells[i].text));
      if (!row.cells[i].small.empty()) {
        html += StrCat(" <small>", HtmlText(row.cells[i].small), "</small>");
      }
      html += "</td>";
    }
    html += "</tr>";
  }
  return html + "</tbody></table></div>";
}

std::string SettingsHtml(const std::vector<RunData>& runs) {
  const std::vector<Row> rows = SettingRows(runs);
  if (rows.empty()) return {};
  const auto differing = std::ranges::count_if(rows, Differs);
  const bool has_switch = differing > 0 && differing < static_cast<int64_t>(rows.size());
  return StrCat("<section id=\"settings\"><div class=\"bar\"><h2>Settings</h2>",
                has_switch ? "<button type=\"button\" id=\"differing\" aria-pressed=\"false\">only "
                             "what differs</button>"
                           : "",
                "</div>", TableHtml(runs, rows, true), "</section>");
}

}  // namespace

std::string ResultsHtml(const std::vector<RunData>& runs, const std::string& order) {
  std::vector<Row> rows;
  AddRunRows(runs, &rows);
  AddTestRows(runs, &rows);
  std::erase_if(rows, IsEmpty);
  const bool no_metrics =
      std::ranges::all_of(runs, [](const RunData& r) { return r.series.empty(); });
  std::string html;
  if (!rows.empty() && !no_metrics) {
    html = StrCat(
        "<section id=\"results\"><div class=\"bar\"><h2>Results</h2>",
        order.empty() ? "" : StrCat("<span class=\"note\">ordered by ", HtmlText(order), "</span>"),
        "</div>", TableHtml(runs, rows, false), "</section>");
  }
  html += SettingsHtml(runs);
  if (html.empty()) return {};
  // Columns of few runs leave room for both tables side by side.
  constexpr size_t kMostBeside = 2;
  return StrCat("<div id=\"tables\" class=\"tables", runs.size() <= kMostBeside ? " beside" : "",
                "\">", html, "</div>\n");
}

}  // namespace crema::tools
