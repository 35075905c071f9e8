#include "train/next_steps.h"

#include <string_view>

#include "common/shell_word.h"
#include "core/strings.h"

namespace crema::tools {
namespace {

// Returns the command that resumes: the same flags, with --resume=auto.
std::string ResumeCommand(const std::vector<std::string>& arguments) {
  std::string command = "train";
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

}  // namespace

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
}

void NextSteps::OnBest(const std::string& model, const std::string& metric, double value) {
  best_ = StrCat("best: ", metric, " = ", value, ", in ", model);
}

std::vector<std::string> NextSteps::Lines(const RunConfig& config, const std::string& run_folder,
                                          const std::vector<std::string>& arguments) const {
  std::vector<std::string> lines;
  if (!tests_.empty()) lines.push_back(StrCat("last test: ", tests_, " (iteration ", tested_, ")"));
  if (!best_.empty()) lines.push_back(best_);
  if (!model_.empty()) {
    lines.push_back("weights: " + model_);
    if (!complete_) lines.push_back("resume: " + ResumeCommand(arguments));
    if (const std::string net = TestNetFile(config, run_folder); !net.empty()) {
      lines.push_back(StrCat("next: evaluate ", ForShell("--model=" + net), " ",
                             ForShell("--weights=" + model_)));
    }
  }
  if (!run_folder.empty()) lines.push_back("next: report " + ForShell(run_folder));
  return lines;
}

}  // namespace crema::tools
