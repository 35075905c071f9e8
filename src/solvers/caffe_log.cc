#include "solvers/caffe_log.h"

#include <utility>

#include "core/strings.h"

namespace crema {

std::string DescribeOutput(const OutputValue& output) {
  std::string text = StrCat(output.blob, " = ", output.value);
  if (output.loss_weight != 0) {
    text += StrCat(" (* ", output.loss_weight, " = ", output.loss_weight * output.value, " loss)");
  }
  return text;
}

CaffeLog::CaffeLog(LogSink& sink, std::string policy, int display)
    : sink_(sink), policy_(std::move(policy)), display_(display) {}

void CaffeLog::OnStart(const std::string& net, int64_t iteration) {
  Info("Solving " + net);
  Info("Learning Rate Policy: " + policy_);
  last_iteration_ = iteration;
  last_time_ = std::chrono::steady_clock::now();
}

void CaffeLog::WriteOutputs(const char* phase, const std::vector<OutputValue>& outputs) {
  for (size_t k = 0; k < outputs.size(); ++k) {
    Info(StrCat("    ", phase, " net output #", k, ": ", DescribeOutput(outputs[k])));
  }
}

void CaffeLog::OnIteration(const IterationReport& report) {
  if (!report.displayed) return;
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - last_time_).count();
  const auto done = static_cast<double>(report.iteration - last_iteration_);
  const double rate = seconds > 0 && done > 0 ? done / seconds : 0;
  Info(StrCat("Iteration ", report.iteration, " (", rate, " iter/s, ", seconds, "s/", display_,
              " iters), loss = ", report.smoothed_loss));
  WriteOutputs("Train", report.outputs);
  Info(StrCat("Iteration ", report.iteration, ", lr = ", report.rate));
  if (report.loss_scale > 0) {
    Info(StrCat("Iteration ", report.iteration, ", loss_scale = ", report.loss_scale,
                ", skipped updates: ", report.skipped_updates));
  }
  last_iteration_ = report.iteration;
  last_time_ = now;
}

void CaffeLog::OnTestStart(int64_t iteration, size_t net) {
  Info(StrCat("Iteration ", iteration, ", Testing net (#", net, ")"));
}

void CaffeLog::OnTest(const TestReport& report) {
  if (report.has_loss) Info(StrCat("Test loss: ", report.loss));
  WriteOutputs("Test", report.outputs);
}

void CaffeLog::OnSnapshot(const std::string& model, const std::string& state) {
  const char* format = model.ends_with(".h5") ? "HDF5" : "binary proto";
  Info(StrCat("Snapshotting to ", format, " file ", model));
  Info(StrCat("Snapshotting solver state to ", format, " file ", state));
}

void CaffeLog::OnBest(const std::string& model, const std::string& metric, double value) {
  Info(StrCat("Best ", metric, " so far: ", value, ", weights in ", model));
}

void CaffeLog::OnFinalLoss(int64_t iteration, double loss) {
  Info(StrCat("Iteration ", iteration, ", loss = ", loss));
}

void CaffeLog::OnEnd(bool stopped_early) {
  Info(stopped_early ? "Optimization stopped early." : "Optimization Done.");
}

}  // namespace crema
