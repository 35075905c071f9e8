#include "train/next_steps.h"

#include <cmath>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "common/metric_name.h"
#include "common/run_data.h"
#include "common/shell_word.h"
#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "solvers/snapshot.h"

namespace crema::tools {
namespace {

// Returns the command that resumes: the same flags, with --resume=auto.
std::string ResumeCommand(const std::vector<std::string>& arguments) {
  std::string command = "crema train";
  for (size_t i = 1; i < arguments.size(); ++i) {
    const bool is_value = !arguments[i].starts_with('-');  // of the flag before it
    const std::string_view flag =
        is_value ? ""
                 : std::string_view(arguments[i]).substr(arguments[i].starts_with("--") ? 2 : 1);
    if (flag.starts_with("resume=") || flag.starts_with("snapshot=")) continue;
    if (flag == "resume" || flag == "snapshot") {
      const bool has_value = i + 1 < arguments.size() && !arguments[i + 1].starts_with('-');
      i += has_value ? 1 : 0;
      continue;
    }
    command += " " + ForShell(arguments[i]);
  }
  return command + " --resume=auto";
}

// Returns the file of the first test net, as it ran if there is a run folder; empty if it is
// written in the solver or there is none.
std::string TestNetFile(const RunConfig& config, const std::string& run_folder) {
  if (config.tests.empty()) return "";
  const SolverParameter& solver = config.solver.solver;
  const bool own = solver.test_net_size() + solver.test_net_param_size() > 0;
  if (!run_folder.empty()) {
    return run_folder + (own ? "/test_net_0.prototxt" : "/net.prototxt");
  }
  if (solver.test_net_size() > 0) return solver.test_net(0);
  return solver.test_net_param_size() > 0 ? "" : solver.net();
}

// Returns the results of the tests by which they are compared: accuracy, or the first output of the
// first test net. Null if there are none.
const MetricSeries* ComparedResult(const RunData& run) {
  const MetricSeries* found = nullptr;
  for (const MetricSeries& series : run.series) {
    if (series.kind != MetricSeries::Kind::kTest || series.net > 0 || series.element > 0) continue;
    if (found == nullptr || series.name == "accuracy") found = &series;
  }
  return found;
}

}  // namespace

void NextSteps::OnStart(const std::string& /*net*/, int64_t iteration) {
  first_iteration_ = iteration;
}

void NextSteps::OnTest(const TestReport& report) {
  if (report.iteration != tested_) tests_.clear();
  tested_ = report.iteration;
  for (size_t i = 0; i < report.outputs.size(); ++i) {
    const OutputValue& output = report.outputs[i];
    // A blob of several elements would fill the line.
    const bool single =
        (i == 0 || report.outputs[i - 1].blob != output.blob) &&
        (i + 1 == report.outputs.size() || report.outputs[i + 1].blob != output.blob);
    if (!single) continue;
    tests_ +=
        StrCat(tests_.empty() ? "" : ", ", report.net > 0 ? StrCat("test#", report.net, ":") : "",
               output.blob, " = ", output.value);
  }
}

void NextSteps::OnSnapshot(const std::string& model, const std::string& /*state*/) {
  model_ = model;
  models_.insert(model);
}

void NextSteps::OnBest(const std::string& model, const std::string& metric, double value) {
  best_ = StrCat("best: ", metric, " = ", value, ", in ", model);
  best_model_ = model;
}

// A file of an iteration before this start is of the resumed run; a later one that this run has not
// written is of another.
NextSteps::Best NextSteps::FindBest(const SolverParameter& solver,
                                    const std::string& run_folder) const {
  if (!best_.empty()) return {.line = best_, .weights = best_model_};
  const std::string kept = solver.has_snapshot_best() ? BestPath(solver) : "";
  std::error_code error;
  if (first_iteration_ > 0 && !kept.empty() && std::filesystem::is_regular_file(kept, error)) {
    return {.line = "best weights, of an earlier start: " + kept, .weights = kept};
  }
  RunData run;
  try {
    if (!run_folder.empty()) run = ReadRun(run_folder);
  } catch (const Error&) {
    return {};  // the folder was deleted meanwhile
  }
  const MetricSeries* results = ComparedResult(run);
  if (results == nullptr) return {};
  const bool smallest = SmallerIsBetter(results->name);
  const MetricPoint* best = nullptr;  // of equal ones, as far as they are printed, the last
  for (const MetricPoint& point : results->points) {
    if (!std::isfinite(point.value)) continue;
    const auto now = static_cast<float>(point.value);
    const auto before = static_cast<float>(best == nullptr ? point.value : best->value);
    if (smallest ? now <= before : now >= before) best = &point;
  }
  if (best == nullptr) return {};
  const auto iteration = static_cast<int64_t>(best->iteration);
  Best found{.line = StrCat("best test: ", results->name.empty() ? "loss" : results->name, " = ",
                            static_cast<float>(best->value), " (iteration ", iteration, ")"),
             .weights = ""};
  const SnapshotPaths paths = PathsOf(solver, iteration);
  const std::string& tested = solver.ema_decay() > 0 ? paths.ema : paths.model;
  const bool is_own = models_.contains(paths.model) || iteration <= first_iteration_;
  std::error_code ignored;
  if (is_own && std::filesystem::is_regular_file(tested, ignored)) {
    found.weights = tested;
    if (iteration == tested_) found.line.clear();  // that of the last test
  } else {
    found.line += "; its weights were not kept: snapshot_best { } keeps them";
  }
  return found;
}

std::vector<std::string> NextSteps::Lines(const RunConfig& config, const std::string& run_folder,
                                          const std::vector<std::string>& arguments) const {
  std::vector<std::string> lines;
  if (!tests_.empty()) lines.push_back(StrCat("last test: ", tests_, " (iteration ", tested_, ")"));
  const Best best = FindBest(config.solver.solver, run_folder);
  if (!best.line.empty()) lines.push_back(best.line);
  const std::string& evaluated = best.weights.empty() ? model_ : best.weights;
  if (!model_.empty()) {
    lines.push_back("weights: " + model_);
    if (!complete_) lines.push_back("resume: " + ResumeCommand(arguments));
  }
  const std::string net = evaluated.empty() ? "" : TestNetFile(config, run_folder);
  if (!net.empty()) {
    lines.push_back(StrCat("next: crema evaluate ", ForShell("--model=" + net), " ",
                           ForShell("--weights=" + evaluated)));
  }
  if (run_folder.empty()) return lines;
  lines.push_back("next: crema report " + ForShell(run_folder));
  if (!evaluated.empty()) {
    lines.push_back(StrCat("next: crema deploy export ", ForShell("--run=" + run_folder), " -o ",
                           ForShell(run_folder + ".crema")));
  }
  return lines;
}

}  // namespace crema::tools
