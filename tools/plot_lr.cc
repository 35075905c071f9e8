// plot_lr: shows the learning rate of every iteration, without training.
#include <gflags/gflags.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "common/line_chart.h"
#include "common/set_flag.h"
#include "common/tool.h"
#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/file.h"
#include "format/prototxt.h"
#include "solvers/learning_rate.h"

DEFINE_string(solver, "", "[Input FILE required #1] the solver, a prototxt");
DEFINE_int64(iterations, 0, "[Run] iterations to show; 0: max_iter of the solver");
DEFINE_string(csv, "",
              "[Output FILE.csv] the table as a file; without it and --png it goes to stdout");
DEFINE_string(png, "", "[Output FILE.png] the schedule as a picture");
DEFINE_string(scale, "auto",
              "[Output auto|linear|log] rates of the picture: linear, log, or auto: log if the "
              "policy multiplies the rate");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema plot_lr SOLVER [--csv=FILE] [--png=FILE] [--set FIELD=VALUE] [flags]\n"
    "\n"
    "Prints the learning rate of every iteration. It follows lr_policy, warm-up and min_lr.\n"
    "Only the solver file is read: nets and data may be missing. lr_policy plateau depends on\n"
    "the training; the upper bound is shown, without any drop.\n"
    "\n"
    "Examples:\n"
    "crema plot_lr models/lenet/solver.prototxt --png=lr.png\n"
    "crema plot_lr solver.prototxt --set lr_policy=cosine --csv=lr.csv";

struct Schedule {
  SolverParameter solver;
  std::vector<double> rates;  // by iteration
  std::string note;           // remark; may be empty
};

SolverParameter ReadChecked() {
  const SolverFile file = ReadSolver(FLAGS_solver, SettingsOfFlags());
  const auto located = [&](std::vector<Problem> problems) {
    for (Problem& problem : problems) problem.where = file.source.Locate(problem.where.field);
    return problems;
  };
  const std::vector<Problem> problems = located(CheckLearningRate(file.solver));
  if (!problems.empty()) throw Error(problems);
  for (const Problem& warning : file.warnings) {
    ToolLog().Write(Severity::kWarning, ToString(warning));
  }
  for (const Problem& warning : located(WarnAboutLearningRate(file.solver))) {
    ToolLog().Write(Severity::kWarning, ToString(warning));
  }
  return file.solver;
}

int64_t CountOfFlags(const SolverParameter& solver) {
  constexpr int64_t kMost = 100'000'000;
  if (FLAGS_iterations < 0 || FLAGS_iterations > kMost) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--iterations is ", FLAGS_iterations, "; use 1 to ", kMost));
  }
  if (FLAGS_iterations == 0 && solver.max_iter() <= 0) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat(FLAGS_solver,
                solver.has_max_epoch() ? " counts in epochs, whose length depends on the data"
                                       : " has no max_iter above 0",
                ": say with --iterations how long the run is"));
  }
  return FLAGS_iterations > 0 ? FLAGS_iterations : std::min<int64_t>(solver.max_iter(), kMost);
}

Schedule MakeSchedule() {
  Schedule schedule{.solver = ReadChecked(), .rates = {}, .note = {}};
  const int64_t count = CountOfFlags(schedule.solver);
  if (!schedule.solver.has_max_iter()) schedule.solver.set_max_iter(static_cast<int>(count));
  LearningRate rate(schedule.solver);
  schedule.rates.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) schedule.rates.push_back(rate.At(i));
  if (schedule.solver.lr_policy() == "plateau") {
    schedule.note = "plateau: upper bound; when the rate drops depends on the training";
  }
  return schedule;
}

void AppendRow(int64_t iteration, double rate, std::string* text) {
  char row[64];
  std::snprintf(row, sizeof(row), "%ld,%.7g\n", iteration, rate);
  *text += row;
}

std::string Csv(const std::vector<double>& rates) {
  std::string text = "iteration,lr\n";
  for (size_t i = 0; i < rates.size(); ++i) AppendRow(static_cast<int64_t>(i), rates[i], &text);
  return text;
}

AxisScale ScaleOfFlag(const SolverParameter& solver) {
  if (FLAGS_scale == "linear") return AxisScale::kLinear;
  if (FLAGS_scale == "log") return AxisScale::kLog;
  if (FLAGS_scale != "auto") {
    const std::vector<std::string> known = {"auto", "linear", "log"};
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--scale is '", FLAGS_scale, "'", DidYouMean(FLAGS_scale, known),
                "; use auto, linear or log"));
  }
  const std::vector<std::string> by_factors = {"step", "exp", "multistep", "multifixed", "plateau"};
  const bool is_log = std::ranges::find(by_factors, solver.lr_policy()) != by_factors.end();
  return is_log ? AxisScale::kLog : AxisScale::kLinear;
}

LineChart Draw(const Schedule& schedule, AxisScale scale) {
  LineChart chart;
  chart.title = StrCat("Learning rate: ", schedule.solver.lr_policy());
  chart.note = schedule.note.empty() ? FLAGS_solver : schedule.note;
  chart.x_label = "iteration";
  chart.y_label = "lr";
  chart.y_scale = scale;
  chart.y_from_zero = true;
  ChartSeries& series = chart.series.emplace_back();
  series.y = schedule.rates;
  for (size_t i = 0; i < schedule.rates.size(); ++i) series.x.push_back(static_cast<double>(i));
  return chart;
}

int Run() {
  if (!FLAGS_png.empty()) CheckPng(FLAGS_png);
  const Schedule schedule = MakeSchedule();
  const AxisScale scale = ScaleOfFlag(schedule.solver);
  if (!schedule.note.empty()) ToolLog().Write(Severity::kWarning, schedule.note);
  if (!FLAGS_csv.empty()) WriteFileAtomically(FLAGS_csv, Csv(schedule.rates));
  if (!FLAGS_png.empty()) WritePng(Draw(schedule, scale), FLAGS_png);
  if (FLAGS_csv.empty() && FLAGS_png.empty()) std::fputs(Csv(schedule.rates).c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage,
                               [](const std::vector<std::string>& arguments) {
                                 crema::tools::RefusePositional(arguments);
                                 return crema::tools::Run();
                               });
}
