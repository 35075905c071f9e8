// Reports of a training run, and its observers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "runtime/weights.h"

namespace crema {

// One element of one output blob of a net.
struct OutputValue {
  std::string blob;
  double value = 0;
  double loss_weight = 0;
};

// Seconds of one iteration of a run in several processes.
struct RankTimes {
  std::vector<double> passes;  // by rank: forward and backward passes; empty: it is one process
  double sums = 0;             // of gradients, in rank 0
  double exposed = 0;          // of these, after its passes: not hidden behind them
};

struct IterationReport {
  int64_t iteration = 0;
  int64_t max_iterations = 0;
  double loss = 0;              // of this iteration, averaged over iter_size
  double smoothed_loss = 0;     // over average_loss iterations
  double rate = 0;              // learning rate
  int64_t samples = 0;          // in one iteration; 0 if the net has no batch axis that gives it
  double seconds = 0;           // wall-clock time since the previous iteration, without tests
  double wait_seconds = 0;      // of `seconds`, waiting for data
  double epoch = 0;             // passes over the training data so far; 0 if it is endless
  double loss_scale = 0;        // in this iteration; 0: there is none
  int64_t skipped_updates = 0;  // before this iteration, since their gradients were not finite
  RankTimes ranks = {};
  bool displayed = false;            // iteration % display == 0
  std::vector<OutputValue> outputs;  // filled when displayed
};

struct TestReport {
  int64_t iteration = 0;
  size_t net = 0;
  std::vector<OutputValue> outputs;  // means over the batches
  bool has_loss = false;             // test_compute_loss
  double loss = 0;
  double seconds = 0;  // wall-clock time
  int64_t samples = 0;
  double epoch = 0;  // passes over the training data so far; 0 if it is endless
};

// Called by the training thread between its steps. The default does nothing.
class TrainingObserver {
 public:
  virtual ~TrainingObserver() = default;
  virtual void OnStart(const std::string& /*net*/, int64_t /*iteration*/) {}
  // Called on the CPU before the passes of an iteration, and after them, when the gradients are
  // complete and the weights have not changed yet.
  virtual void OnIterationStart() {}
  virtual void OnGradients() {}
  virtual void OnIteration(const IterationReport&) {}
  virtual void OnTestStart(int64_t /*iteration*/, size_t /*net*/) {}
  virtual void OnTest(const TestReport&) {}
  // Called before a snapshot is written, of everything reported so far.
  virtual void OnSnapshotStart() {}
  virtual void OnSnapshot(const std::string& /*model*/, const std::string& /*state*/) {}
  // Called when a test was better than all before; `model` is the file of its weights. `metric` is
  // "test#0:accuracy".
  virtual void OnBest(const std::string& /*model*/, const std::string& /*metric*/,
                      double /*value*/) {}
  virtual void OnFinalLoss(int64_t /*iteration*/, double /*loss*/) {}
  // Called before OnEnd(true) if the solver's early_stop ended the run, which is complete then.
  virtual void OnEarlyStop() {}
  virtual void OnEnd(bool /*stopped_early*/) {}
};

// Forwards every event in the order in which observers were added. They must outlive the events.
// Thread safety: one thread; observers may be added between two events.
class ObserverList final : public TrainingObserver {
 public:
  void Add(TrainingObserver& observer) { observers_.push_back(&observer); }
  bool empty() const { return observers_.empty(); }

  void OnStart(const std::string& net, int64_t iteration) override {
    for (TrainingObserver* o : observers_) o->OnStart(net, iteration);
  }
  void OnIterationStart() override {
    for (TrainingObserver* o : observers_) o->OnIterationStart();
  }
  void OnGradients() override {
    for (TrainingObserver* o : observers_) o->OnGradients();
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
  void OnEarlyStop() override {
    for (TrainingObserver* o : observers_) o->OnEarlyStop();
  }
  void OnEnd(bool stopped_early) override {
    for (TrainingObserver* o : observers_) o->OnEnd(stopped_early);
  }

 private:
  std::vector<TrainingObserver*> observers_;
};

}  // namespace crema
