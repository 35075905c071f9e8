// A training run: nets, weights, update rule, schedule, snapshots. docs/training.md tells it to
// users.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/log.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "parallel/rank_group.h"
#include "runtime/compute_device.h"
#include "runtime/session.h"
#include "solvers/device_state.h"
#include "solvers/diagnose.h"
#include "solvers/ema.h"
#include "solvers/epochs.h"
#include "solvers/iteration_start.h"
#include "solvers/learning_rate.h"
#include "solvers/loss_scale.h"
#include "solvers/loss_window.h"
#include "solvers/metric_tracker.h"
#include "solvers/queued_iterations.h"
#include "solvers/ranked_run.h"
#include "solvers/snapshot_keeper.h"
#include "solvers/solver_config.h"
#include "solvers/test_net.h"
#include "solvers/time_limit.h"
#include "solvers/training_observer.h"
#include "solvers/update_rule.h"

namespace crema {

// What the outside may ask of a run between two iterations, two passes of one (iter_size) or two
// test batches. A stop between two passes gives the iteration up: the run is then as it was before
// it.
enum class Request { kNone, kSnapshot, kStop };

struct SolverOptions {
  int threads = 0;  // 0: all processors
  // The same bytes on any number of threads: everything is cut into kDeterministicPieces, whichever
  // threads compute them. Refuses by name what cannot be.
  bool deterministic = false;
  LogSink* log = nullptr;
  TrainingObserver* observer = nullptr;
  std::function<Request()> poll;  // empty: nobody asks
  // Seed of the run; unset: random_seed of the solver, or a random one where that is negative. To
  // resume bit for bit, give the seed of the state.
  std::optional<uint64_t> seed;
  ComputeDevice device = {};             // where all nets of the run compute
  DeviceUpdateMaker device_update = {};  // how weights are updated on a GPU; empty: as built
  // Where the run is on several devices (parallel_run.h): all of them, and which one this is. Only
  // rank 0 tests and writes snapshots. Must outlive the solver.
  RankGroup* ranks = nullptr;
  int rank = 0;
  // Whoever hands over batches (Input, MemoryData) gives the same one again and again: so it is
  // still there when it is heard later that it broke an iteration, and none waits for its loss.
  bool same_batch = false;
  // Of all plans of the run; threads, backward, deterministic and device are set by the run itself.
  PlanOptions plan = {};
};

inline constexpr int kDeterministicPieces = 16;

// With SolverOptions::ranks, Solve and Step are called in all ranks, each in a thread of its own;
// the rest of what runs the net is for one rank alone. Thread safety: one thread; several solvers
// may run in threads of one process.
class Solver {
 public:
  // Plans all nets and allocates them. Throws Error with all problems of a net at once. `registry`
  // must outlive the solver.
  Solver(RunConfig config, const Registry& registry, SolverOptions options);

  // Starts from the weights of caffemodels, in order; layers they do not hold keep their values.
  void LoadWeights(const std::vector<std::string>& paths,
                   OnMismatch on_mismatch = OnMismatch::kError);
  // Goes on where a snapshot was taken. After an error the solver is of no use.
  void Restore(const std::string& state_path);

  // Trains to max_iter (or max_epoch), with tests and snapshots, and the closing test. A snapshot
  // on the way that cannot be written is logged as an error and training goes on; the last one
  // throws kIoFailure. Throws kDiverged when the loss is no longer finite; snapshots written before
  // stay.
  void Solve();
  // Runs `count` iterations, with tests and snapshots. False: stopped by a request, by time_limit
  // or by early_stop.
  bool Step(int64_t count);
  // Runs one test net; with the averaged weights where ema_decay is set.
  TestReport Test(size_t net);
  void Snapshot();

  // One iteration at this rate, without test, snapshot and report; its loss. Throws kDiverged.
  double Iterate(double rate);
  // The same, but a GPU need not have done it yet: whether it diverged, later calls and EndTrial
  // find out.
  void QueueIteration(double rate);
  // Runs `body`, then puts back what iterations change: weights, history, data position, random
  // state, number of the iteration; also when it throws.
  void WithoutTrace(const std::function<void()>& body);
  // Throws kDiverged if the last Iterate broke the weights, which on a GPU shows only later.
  void EndTrial();

  int64_t iteration() const { return iteration_; }
  uint64_t seed() const { return seed_; }
  // With max_iter set where the text counts epochs.
  const RunConfig& config() const { return config_; }
  const Plan& plan() const { return *train_plan_; }
  const Plan& test_plan(size_t net) const { return tests_[net]->plan(); }
  size_t test_count() const { return tests_.size(); }
  Session& session() { return *train_; }
  // On a GPU these are copies of what is there, as of this call.
  Weights& weights();
  // Null without ema_decay.
  Weights* averaged_weights();
  // Layers that `freeze` holds still, in order.
  const std::vector<std::string>& frozen_layers() const { return frozen_; }

 private:
  // How one call of the loop ended.
  enum class Ending { kDone, kRequest, kRule };

  // solver.cc: what a run is made of, and one update.
  void PlanNets(const Registry& registry);
  void PlanTrainNet(const Registry& registry, const PlanOptions& options);
  void PlanTestNets(const Registry& registry, const PlanOptions& options);
  void RefuseUndetermined() const;
  void CountEpochsOnce();
  void MakeRules();
  void AllocateHistory();
  // All passes of an iteration on the CPU, and their mean loss. With `stop_heard` it ends as soon
  // as GivesUp(), and returns nothing.
  std::optional<double> ForwardBackward(bool stop_heard);
  // False: gradients were not finite at this loss scale, and nothing was changed but the scale.
  // Throws kDiverged when a weight or history is not finite after it.
  bool ApplyUpdate(double rate);
  bool JudgeScale();
  void ReportSkippedUpdate(int64_t iteration, double tried);
  double LossScaleNow() const { return scale_ ? scale_->scale() : 1; }
  UpdateArgs ArgsOfUpdate(double rate);
  std::vector<ConstTensorView> LearnedGradients();
  void FindBlobsToUpdate(double rate);
  void MoveAverage();
  double GradientScale(double loss_scale);
  bool StandsStill(size_t slot);
  // Brings to the host what a GPU has changed.
  void ReturnWeights();
  void ReturnHistory();
  double ForwardOnce();  // throws kDiverged for a loss that is not finite
  DivergedRun RunSoFar(int64_t iteration) const;
  double gradient_scale_ = 1;  // of the update before, without clipping
  void WarnWhereNothingIsLearned(const Plan& test, size_t net) const;
  void Warn(const std::vector<Problem>& warnings);

  // solver_ahead.cc: iterations on a GPU, where the host queues some before it hears of the first.
  bool KnowsEachLoss() const;
  // These two return false for an iteration that was given up, which one with a `rate` never is.
  bool IterateOnGpu(std::optional<double> rate);
  bool QueuePasses(bool stop_heard, QueuedIteration* ahead);
  // Hears of iterations that the GPU has ended; of all that were queued, where it may `wait`.
  void DrainCompletedIterations(bool wait);
  bool DrainOneIteration(bool wait);  // false: there was none to hear of
  void DrainOutcome(QueuedIteration* ahead, const DeviceRun& outcome);
  void BeginOnGpu();
  void ReportWhyNoGraph();

  // solver_memory.cc: plans and allocates all of the run.
  void Allocate(const Registry& registry);
  Error ExplainMemory(const Error& cause, const Registry& registry, int64_t free) const;

  // solver_loop.cc
  void Limited(const std::function<void()>& body);
  void SolveAll();
  Ending RunTo(int64_t end);
  bool Train();                  // false: the iteration was given up
  bool GivesUp(int pass);        // before each pass
  void ReportDrop(double rate);  // of plateau
  void Report(double loss, double rate);
  IterationReport ReportOf(double rate);
  void Deliver(double loss, IterationReport* report);
  void StartAverage();
  bool IsTestDue() const;
  Ending TestHere();
  TestReport RunTest(size_t net);
  bool Judge(const std::vector<TestReport>& reports);  // true: early_stop ends the run
  void UpdateBest(const std::vector<TestReport>& reports);
  void WarnOfLoss(const TestReport& report);
  Request Poll();
  void LastSnapshot();
  double WaitedSeconds() const;

  // All ranks make these calls.
  void StartRanks();
  Ending TestAll();
  Request PollAll();
  // Rank 0 learns the positions of the data readers of the others, for its snapshots.
  void GatherPositions();

  // solver_snapshot.cc
  void TrySnapshot();
  RunWeights RunWeightsNow() const;
  void SaveDecisions(SolverState* state) const;
  SolverState MakeState() const;
  void RestoreHistory(const SolverState& state, const std::string& path);
  void RestoreAverage(const SolverState& state, const std::string& path);
  void RestorePositions(const SolverState& state);

  RunConfig config_;
  SolverOptions options_;
  const SolverParameter& param_;
  const UpdateRule& rule_;
  const Registry& registry_;
  uint64_t seed_;
  RankedRun ranks_;
  SnapshotKeeper snapshots_;
  std::shared_ptr<const Plan> train_plan_;
  std::shared_ptr<Weights> weights_;
  std::unique_ptr<Session> train_;
  std::vector<std::string> frozen_;
  std::unique_ptr<WeightAverage> average_;  // null without ema_decay
  bool average_started_ = false;
  std::vector<std::unique_ptr<TestNet>> tests_;
  std::vector<Tensor> history_memory_;
  std::vector<std::vector<TensorView>> history_;  // by learned slot; empty when it is shared
  std::unique_ptr<DeviceState> device_;           // null on the CPU
  Epochs epochs_;
  bool epochs_counted_ = false;
  std::optional<LearningRate> rate_;  // once max_iter is known
  std::optional<LossScale> scale_;    // where gradients are scaled
  LossWindow losses_;
  PassMark mark_;                  // before the last forward pass
  IterationStart start_;           // of an iteration with several passes
  bool snapshot_asked_ = false;    // between its passes
  std::vector<BlobUpdate> blobs_;  // of the update that is made
  std::vector<size_t> slots_;      // theirs
  QueuedIterations queued_;        // on a GPU
  double heard_loss_ = 0;          // of the last iteration that was heard of
  bool no_graph_reported_ = false;
  bool test_loss_reported_ = false;  // that one was not finite
  std::optional<MetricTracker> best_;
  std::optional<MetricTracker> early_;
  // What tests may change, as it was before those of this iteration: a run that is resumed here
  // makes them again. Unset when there were none.
  std::optional<SolverState> before_tests_;
  Deadline deadline_;
  bool deadline_reported_ = false;
  int64_t iteration_ = 0;
  bool restored_ = false;
  std::chrono::steady_clock::time_point last_report_;
  double test_seconds_ = 0;  // since then
  double waited_ = 0;        // for data, until then
};

}  // namespace crema
