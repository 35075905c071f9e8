// One test net of a training run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/log.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "runtime/compute_device.h"
#include "runtime/epoch_runner.h"
#include "runtime/session.h"
#include "solvers/detection_precision.h"
#include "solvers/solver_config.h"
#include "solvers/training_observer.h"

namespace crema {

// Every element of every output of a net, in the order of their names.
std::vector<OutputValue> OutputsOf(const Session& session);

// Throws kInvalidArgument when test net `index`, which is to see every sample once, reads a source
// that has no end; train and check share this.
void RefuseTestWithoutEnd(const NetOfRun& net, const Session& session, size_t index);

// Thread safety: one thread.
class TestNet {
 public:
  struct Options {
    size_t index = 0;  // among the test nets of the run
    int batches = 0;   // of one test; 0: every sample of the source exactly once
    bool report_loss = false;
    PlanOptions plan;
    ComputeDevice device = {};
    uint64_t seed = 1;
    std::vector<Problem>* warnings = nullptr;
    LogSink* log = nullptr;  // may be null
    ApRule precision = ApRule::kIntegral;
    bool log_classes = false;  // the average precision of each
  };
  // Plans and allocates; layers that `trained` has are shared with it. `net`, `registry` and
  // `trained` must outlive this. Throws Error with all problems of the net.
  TestNet(const NetOfRun& net, const Registry& registry, const Weights& trained, Options options);

  // Throws kInvalidArgument when there is to be one pass over a source that has no end.
  void RefuseSourceWithoutEnd() const;

  // One test, of the weights as `trained` has them now; `after_batch` is called after each batch
  // and may throw to end it. Means over `batches` as Caffe computes them, going on in the source
  // where the test before ended; or over all samples, each with the same weight, from the start of
  // the source. Random draws depend on the iteration, so that a resumed run sees the same. Outputs
  // whose size changes from batch to batch are left out, with one warning each; those of
  // DetectionEvaluate are one mean average precision.
  TestReport Run(int64_t iteration, const std::function<void()>& after_batch);

  const Plan& plan() const { return session_->plan(); }
  // Where the data readers stand, for snapshots.
  void Save(SolverState* state) const { session_->SaveState(name_, state); }
  void Restore(const SolverState& state) { session_->RestoreState(name_, state); }

 private:
  std::shared_ptr<const Plan> PlanOf(const NetParameter& net, std::vector<Problem>* warnings) const;
  std::unique_ptr<Session> Open(const std::shared_ptr<const Plan>& plan) const;
  std::unique_ptr<Session> OpenFirst() const;  // throws kOutOfMemory before it allocates too much
  void RunBatches(const std::function<void()>& after_batch, TestReport* report);
  void RunEpoch(const std::function<void()>& after_batch, TestReport* report);
  void AddOutputs(const std::vector<EvaluatedOutput>& means,
                  const std::vector<std::string>& left_out, TestReport* report);

  const NetOfRun& net_;
  const Registry& registry_;
  const Weights& trained_;
  const Options options_;
  const std::string name_;  // in snapshots: "test#0"
  std::unique_ptr<Session> session_;
  SolverState start_;  // of the data readers, as opened
  DetectionPrecision detection_;
  std::set<std::string> told_;  // outputs that are left out
  std::function<void()> after_batch_;
  std::unique_ptr<EpochRunner> epoch_;
};

}  // namespace crema
