// What a training run tells the outside.
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

struct IterationReport {
  int64_t iteration = 0;
  int64_t max_iterations = 0;
  double loss = 0;              // of this iteration, averaged over iter_size
  double smoothed_loss = 0;     // over average_loss iterations
  double rate = 0;              // learning rate
  int64_t samples = 0;          // of one iteration; 0 when the net has no batch axis to tell it
  double seconds = 0;           // wall-clock time since the iteration before, tests left out
  double wait_seconds = 0;      // of those, waiting for data
  double epoch = 0;             // passes over the training data so far; 0 when it has no end
  double loss_scale = 0;        // of this iteration; 0: there is none
  int64_t skipped_updates = 0;  // before this iteration, since their gradients were not finite
  bool displayed = false;       // iteration % display == 0
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
  double epoch = 0;  // passes over the training data so far; 0 when it has no end
};

// Called by the thread that trains, between its steps. The default does nothing.
class TrainingObserver {
 public:
  virtual ~TrainingObserver() = default;
  virtual void OnStart(const std::string& /*net*/, int64_t /*iteration*/) {}
  virtual void OnIteration(const IterationReport&) {}
  virtual void OnTestStart(int64_t /*iteration*/, size_t /*net*/) {}
  virtual void OnTest(const TestReport&) {}
  // A snapshot is about to be written, of all that was reported.
  virtual void OnSnapshotStart() {}
  virtual void OnSnapshot(const std::string& /*model*/, const std::string& /*state*/) {}
  // A test was better than all before; `model` holds its weights. `metric` is "test#0:accuracy".
  virtual void OnBest(const std::string& /*model*/, const std::string& /*metric*/,
                      double /*value*/) {}
  virtual void OnFinalLoss(int64_t /*iteration*/, double /*loss*/) {}
  virtual void OnEnd(bool /*stopped_early*/) {}
};

}  // namespace crema
