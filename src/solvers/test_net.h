// One test net of a training run.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
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

// Returns every element of every output of a net, in the order of their names, except for outputs
// of more than kMostReportedElements.
std::vector<OutputValue> OutputsOf(const Session& session);

// Throws kInvalidArgument if test net `index`, which must use every sample once, reads an endless
// source; train and check share this.
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
    bool log_classes = false;  // the average precision of each class
  };
  // Plans and allocates; parameters in `trained` are shared. `net`, `registry` and `trained` must
  // outlive this. Throws Error with all problems of the net.
  TestNet(const NetOfRun& net, const Registry& registry, const Weights& trained, Options options);

  // Throws kInvalidArgument for one pass over an endless source.
  void RefuseSourceWithoutEnd() const;

  // Runs one test with the current weights of `trained`; `after_batch` is called after each batch
  // and may throw to end it. Returns means over `batches` as Caffe computes them, continuing in the
  // source where the previous test ended; or over all samples, each with the same weight, from the
  // start of the source. Random draws depend on the iteration, so that a resumed run repeats them.
  // Outputs whose size changes from batch to batch are omitted, with one warning each; those of
  // DetectionEvaluate become one mean average precision.
  TestReport Run(int64_t iteration, const std::function<void()>& after_batch);

  // Returns true if several ranks can share a test, each with its part of the batches.
  bool CanSplit() {
    if (!can_split_) can_split_ = CanMoveByBatches(*session_);
    return *can_split_;
  }
  // Runs the part of a rank. Returns its results for JoinParts. Requires CanSplit.
  std::string RunPart(int64_t iteration, const RankPlace& own,
                      const std::function<void()>& after_batch);
  // Returns the report of a test from the parts of all ranks, in their order.
  TestReport JoinParts(int64_t iteration, std::span<const std::string> parts);

  const Plan& plan() const { return session_->plan(); }
  Session& session() { return *session_; }
  // Saves the positions of the data readers.
  void Save(SolverState* state) const { session_->SaveState(name_, state); }
  void Restore(const SolverState& state) { session_->RestoreState(name_, state); }

 private:
  std::shared_ptr<const Plan> PlanOf(const NetParameter& net, std::vector<Problem>* warnings) const;
  std::unique_ptr<Session> Open(const std::shared_ptr<const Plan>& plan) const;
  std::unique_ptr<Session> OpenFirst() const;  // throws kOutOfMemory before it allocates too much
  // Starts a test. Returns the results of this rank but for detection_.
  Evaluation Evaluate(int64_t iteration, const RankPlace& own,
                      const std::function<void()>& after_batch);
  Evaluation RunBatches(const RankPlace& own, const std::function<void()>& after_batch);
  TestReport ReportOf(int64_t iteration, const Evaluation& all);

  const NetOfRun& net_;
  const Registry& registry_;
  const Weights& trained_;
  const Options options_;
  const std::string name_;  // in snapshots: "test#0"
  std::unique_ptr<Session> session_;
  SolverState start_;  // of the data readers, as opened
  DetectionPrecision detection_;
  std::set<std::string> told_;  // omitted outputs that were warned about
  std::function<void()> after_batch_;
  std::chrono::steady_clock::time_point started_;  // the test
  std::optional<bool> can_split_;
  std::unique_ptr<EpochRunner> epoch_;
};

}  // namespace crema
