// lr_find: finds a suitable learning rate by a short training with an increasing one.
#include <gflags/gflags.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "common/gpu_flag.h"
#include "common/line_chart.h"
#include "common/output_file.h"
#include "common/plan_flags.h"
#include "common/plugin_flag.h"
#include "common/set_flag.h"
#include "common/tool.h"
#include "common/weights_flags.h"
#include "core/error.h"
#include "core/strings.h"
#include "format/file.h"
#include "format/prototxt.h"
#include "solvers/lr_finder.h"

DEFINE_string(solver, "",
              "[Input FILE required #1] the solver, a prototxt; its lr_policy is ignored");
DEFINE_string(weights, "",
              "[Input FILES] caffemodels to start from, separated by commas; by layer name");
DEFINE_double(start_lr, 1e-7, "[Run] first rate");
DEFINE_double(end_lr, 10, "[Run] last rate");
DEFINE_int64(iterations, 100, "[Run] iterations from the first rate to the last");
DEFINE_string(csv, "", "[Output FILE.csv] losses by rate, as a file");
DEFINE_string(png, "", "[Output FILE.png] losses by rate, as a picture");
DEFINE_int32(threads, 0, "[Run N] threads; 0: one for each processor");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema lr_find SOLVER [--csv=FILE] [--png=FILE] [--set FIELD=VALUE] [flags]\n"
    "\n"
    "Searches for a learning rate. Trains for some iterations, each with a higher rate, until\n"
    "the loss is four times its best, and suggests the rate at which the smoothed loss fell\n"
    "fastest. Discards the trained weights, and writes only the files of --csv and --png.\n"
    "\n"
    "Examples:\n"
    "crema lr_find models/lenet/solver.prototxt --png=rates.png\n"
    "crema lr_find solver.prototxt --start_lr=1e-5 --end_lr=1 --iterations=200";

std::string Csv(const LrFinding& finding) {
  std::string text = "iteration,lr,loss,smoothed_loss\n";
  for (size_t i = 0; i < finding.points.size(); ++i) {
    const LrFinding::Point& point = finding.points[i];
    char row[128];
    std::snprintf(row, sizeof(row), "%zu,%.9g,%.9g,%.9g\n", i, point.rate, point.loss,
                  point.smoothed);
    text += row;
  }
  return text;
}

std::string Short(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2g", value);
  return text;
}

LineChart Draw(const LrFinding& finding) {
  LineChart chart;
  chart.title = "Loss by learning rate";
  chart.note = FLAGS_solver;
  chart.x_label = "learning rate";
  chart.y_label = "loss";
  chart.x_scale = AxisScale::kLog;
  ChartSeries loss{.name = "loss", .x = {}, .y = {}, .faint = true};
  ChartSeries smoothed{.name = "smoothed", .x = {}, .y = {}};
  double first = 0;
  for (const LrFinding::Point& point : finding.points) {
    loss.x.push_back(point.rate);
    loss.y.push_back(point.loss);
    smoothed.x.push_back(point.rate);
    smoothed.y.push_back(point.smoothed);
    if (point.rate <= finding.points[finding.lowest].rate) first = std::max(first, point.loss);
  }
  // Limits y: the steep end would flatten the rest.
  chart.y_most = first + (first - finding.points[finding.lowest].smoothed) / 2;
  chart.series = {std::move(loss), std::move(smoothed)};
  if (finding.suggested) {
    const double rate = finding.points[*finding.suggested].rate;
    chart.marks.push_back({rate, "steepest " + Short(rate)});
    const double lowest = finding.points[finding.lowest].rate;
    if (!finding.still_falling && lowest != rate) {
      chart.marks.push_back({lowest, "lowest " + Short(lowest)});
    }
  }
  return chart;
}

void Print(const LrFinding& finding) {
  const size_t count = finding.points.size();
  std::printf("%zu iterations, rates %g to %g", count, FLAGS_start_lr,
              count == 0 ? FLAGS_start_lr : finding.points.back().rate);
  std::printf(finding.diverged ? ": stopped where the loss blew up\n" : "\n");
  if (!finding.suggested) {
    std::printf("no suggestion: %s\n", finding.reason.c_str());
    return;
  }
  const LrFinding::Point& steepest = finding.points[*finding.suggested];
  const LrFinding::Point& lowest = finding.points[finding.lowest];
  if (finding.still_falling) {
    std::printf("the loss still falls at the last rates: raise --end_lr before you trust this\n");
  } else {
    std::printf("lowest smoothed loss: %.4g at rate %s\n", lowest.smoothed,
                Short(lowest.rate).c_str());
  }
  std::printf("suggestion: base_lr: %s  (where the smoothed loss falls fastest)\n",
              Short(steepest.rate).c_str());
  if (!finding.diverged && !finding.still_falling) {
    std::printf("the loss did not blow up: a higher --end_lr may show more\n");
  }
}

LrFinding Find() {
  const LrFinderOptions search{
      .start = FLAGS_start_lr, .end = FLAGS_end_lr, .iterations = FLAGS_iterations};
  CheckLrFinderOptions(search);
  const std::vector<FieldSetting> settings = SettingsOfFlags();
  SolverFile file = SolverForFinding(ReadSolver(FLAGS_solver, settings), search);
  if (!FLAGS_weights.empty()) {
    file.solver.clear_weights();
    file.solver.add_weights(FLAGS_weights);
  }
  const WeightsFiles weights = WeightsOfFlags(
      {file.solver.weights().begin(), file.solver.weights().end()}, MissingLayers::kKeep);
  Registry registry = LayersOfFlag();
  SolverOptions options;
  options.threads = CheckedThreads(FLAGS_threads);
  options.log = &ToolLog();
  options.device = DeviceOfRun(file.solver, ToolLog());
  options.plan = PlanOptionsOfFlags();
  RunConfig config = MakeRunConfig(std::move(file), settings);
  LoadPlugins(&config, &registry);
  Solver solver(std::move(config), registry, std::move(options));
  solver.LoadWeights(weights.paths, weights.on_mismatch);
  return FindLearningRate(search, &solver);
}

int Run() {
  if (!FLAGS_png.empty()) CheckPng(FLAGS_png);
  for (const std::string& file : {FLAGS_csv, FLAGS_png}) {
    if (!file.empty()) CheckOutputFile(file);
  }
  const LrFinding finding = Find();
  Print(finding);
  if (!FLAGS_csv.empty()) WriteFileAtomically(FLAGS_csv, Csv(finding));
  if (!FLAGS_png.empty()) WritePng(Draw(finding), FLAGS_png);
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
