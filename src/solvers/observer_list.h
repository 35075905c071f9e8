// A list of observers of one run.
#pragma once

#include <vector>

#include "solvers/training_observer.h"

namespace crema {

// Forwards every event in the order in which observers were added. They must outlive the events.
// Thread safety: one thread; observers may be added between two events.
class ObserverList final : public TrainingObserver {
 public:
  void Add(TrainingObserver& observer) { observers_.push_back(&observer); }
  bool empty() const { return observers_.empty(); }

  void OnStart(const std::string& net, int64_t iteration) override {
    for (TrainingObserver* o : observers_) o->OnStart(net, iteration);
  }
  void OnIteration(const IterationReport& report) override {
    for (TrainingObserver* o : observers_) o->OnIteration(report);
  }
  void OnTestStart(int64_t iteration, size_t net) override {
    for (TrainingObserver* o : observers_) o->OnTestStart(iteration, net);
  }
  void OnTest(const TestReport& report) override {
    for (TrainingObserver* o : observers_) o->OnTest(report);
  }
  void OnSnapshotStart() override {
    for (TrainingObserver* o : observers_) o->OnSnapshotStart();
  }
  void OnSnapshot(const std::string& model, const std::string& state) override {
    for (TrainingObserver* o : observers_) o->OnSnapshot(model, state);
  }
  void OnBest(const std::string& model, const std::string& metric, double value) override {
    for (TrainingObserver* o : observers_) o->OnBest(model, metric, value);
  }
  void OnFinalLoss(int64_t iteration, double loss) override {
    for (TrainingObserver* o : observers_) o->OnFinalLoss(iteration, loss);
  }
  void OnEnd(bool stopped_early) override {
    for (TrainingObserver* o : observers_) o->OnEnd(stopped_early);
  }

 private:
  std::vector<TrainingObserver*> observers_;
};

}  // namespace crema
