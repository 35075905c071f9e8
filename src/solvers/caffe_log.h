// Logs a run in the wording of Caffe's log, which existing log parsers read.
#pragma once

#include <chrono>

#include "core/log.h"
#include "solvers/training_observer.h"

namespace crema {

// Thread safety: one thread.
class CaffeLog final : public TrainingObserver {
 public:
  // `policy` is the solver's lr_policy, `display` its display interval.
  CaffeLog(LogSink& sink, std::string policy, int display);

  void OnStart(const std::string& net, int64_t iteration) override;
  void OnIteration(const IterationReport& report) override;
  void OnTestStart(int64_t iteration, size_t net) override;
  void OnTest(const TestReport& report) override;
  void OnSnapshot(const std::string& model, const std::string& state) override;
  void OnBest(const std::string& model, const std::string& metric, double value) override;
  void OnFinalLoss(int64_t iteration, double loss) override;
  void OnEnd(bool stopped_early) override;

 private:
  void Info(const std::string& line) { sink_.Write(Severity::kInfo, line); }
  void WriteOutputs(const char* phase, const std::vector<OutputValue>& outputs);

  LogSink& sink_;
  std::string policy_;
  int display_;
  int64_t last_iteration_ = 0;
  std::chrono::steady_clock::time_point last_time_;
};

// Returns "accuracy = 0.98", with " (* 1 = 0.3 loss)" after weighted outputs.
std::string DescribeOutput(const OutputValue& output);

}  // namespace crema
