// A training run: nets, weights, update rule, schedule, snapshots. docs/training.md describes it
// for users.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/log.h"
#include "core/tensor.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "parallel/rank_group.h"
#include "plan/plan.h"
#include "runtime/compute_device.h"
#include "runtime/session.h"
#include "solvers/device_update.h"
#include "solvers/diagnose.h"
#include "solvers/epochs.h"
#include "solvers/learning_rate.h"
#include "solvers/loss_window.h"
#include "solvers/metric_tracker.h"
#include "solvers/queued_iterations.h"
#include "solvers/ranked_run.h"
#include "solvers/snapshot_keeper.h"
#include "solvers/solver_config.h"
#include "solvers/test_net.h"
#include "solvers/time_limit.h"
#include "solvers/training_observer.h"
#include "solvers/updater.h"

namespace crema {

// A request to a run, polled between two iterations, two passes of one (iter_size) or two test
// batches. A stop between two passes gives the iteration up: the run is then as before it.
enum class Request { kNone, kSnapshot, kStop };

struct SolverOptions {
  int threads = 0;  // 0: all processors
  // Computes the same bytes on any number of threads: all work is cut into kDeterministicPieces.
  // The constructor names what cannot be deterministic in its error.
  bool deterministic = false;
  LogSink* log = nullptr;
  TrainingObserver* observer = nullptr;
  std::function<Request()> poll;  // empty: no requests
  // Seed of the run; unset: random_seed of the solver, or a random one if that is negative. To
  // resume bit for bit, give the seed of the state.
  std::optional<uint64_t> seed;
  ComputeDevice device = {};             // of all nets of the run
  DeviceUpdateMaker device_update = {};  // updates weights on a GPU; empty: as built
  // All ranks of a run on several devices (parallel_run.h), and the rank of this solver. Only rank
  // 0 tests and writes snapshots. Must outlive the solver. Null: one device.
  RankGroup* ranks = nullptr;
  int rank = 0;
  // The program that feeds batches (Input, MemoryData) repeats the same one: it is still available
  // if it later turns out to have broken an iteration, so no iteration waits for its loss.
  bool same_batch = false;
  // Options of all plans of the run, which sets threads, backward, deterministic and device itself.
  PlanOptions plan = {};
};

inline constexpr int kDeterministicPieces = 16;

// Returns the options with which a run plans its training net.
PlanOptions PlanOptionsOf(const SolverOptions& options);

// Positions of data readers, number of the pass, and running statistics, which forward passes
// change; the weights change at the end of an iteration only. Thread safety: one thread.
class IterationStart {
 public:
  // On a GPU the copies are queued. Allocates memory the first time.
  void Take(const Session& session);
  // Requires Take of the same session.
  void PutBack(Session* session) const;

 private:
  PassMark mark_;
  std::vector<Tensor> statistics_;  // by parameter slot; empty if it is not a statistic
};

// With SolverOptions::ranks, all ranks call Solve and Step, each in a thread of its own; all other
// calls that run the net are for one rank alone. Thread safety: one thread; several solvers may
// run in threads of one process.
class Solver {
 public:
  // Plans all nets and allocates them. Throws Error with all problems of a net at once. `registry`
  // must outlive the solver.
  Solver(RunConfig config, const Registry& registry, SolverOptions options);

  // Starts from the weights of caffemodels, in order; layers that they lack keep their values.
  void LoadWeights(const std::vector<std::string>& paths,
                   OnMismatch on_mismatch = OnMismatch::kError);
  // Takes weights that were written to its nets: their moving average starts again from them.
  void TakeWeights();
  // Resumes from a snapshot. After an error the solver must not be used.
  void Restore(const std::string& state_path);

  // Checks what Solve checks before the first iteration, so that errors and warnings come earlier;
  // the next Solve leaves it out. Removes files that killed runs left. Throws like Solve.
  void CheckStart();
  // Trains to max_iter (or max_epoch), with tests and snapshots, and the closing test. A snapshot
  // on the way that cannot be written is logged as an error and training continues; the last one
  // throws kIoFailure. Throws kDiverged if the loss is no longer finite; snapshots written before
  // stay.
  void Solve();
  // Runs `count` iterations, with tests and snapshots. Returns false if a request, time_limit or
  // early_stop has stopped them.
  bool Step(int64_t count);
  // Runs one test net; with the averaged weights if ema_decay is set.
  TestReport Test(size_t net);
  void Snapshot();
  // Updates the weights by the gradients that the session holds, at the rate of this iteration,
  // which it does not count. Throws kDiverged, and kUnsupported on a GPU.
  void Update();

  // Runs one iteration at this rate, without test, snapshot and report. Returns its loss. Throws
  // kDiverged.
  double Iterate(double rate);
  // The same, but a GPU need not have completed it: later calls and EndTrial throw kDiverged.
  void QueueIteration(double rate);
  // Runs `body`, then restores all that iterations change, also if it throws: weights, histories,
  // data positions, random state, number of the iteration.
  void WithoutTrace(const std::function<void()>& body);
  // Throws kDiverged if a queued iteration broke the weights.
  void EndTrial();

  int64_t iteration() const { return iteration_; }
  // Returns the learning rate of the next update; with `plateau`, before the loss of that
  // iteration.
  double rate() const { return LearningRate(*rate_).At(iteration_); }
  uint64_t seed() const { return seed_; }
  // Returns the configuration; max_iter is set also if the text counts epochs.
  const RunConfig& config() const { return config_; }
  const Plan& plan() const { return *train_plan_; }
  const Plan& test_plan(size_t net) const { return tests_[net]->plan(); }
  Session& test_session(size_t net) { return tests_[net]->session(); }
  size_t test_count() const { return tests_.size(); }
  Session& session() { return *train_; }
  // Return weights in host memory; on a GPU copies as of this call.
  Weights& weights();
  // The same for their moving average. Null without ema_decay.
  Weights* averaged_weights();
  // Returns the layers that `freeze` names, in order.
  const std::vector<std::string>& frozen_layers() const { return frozen_; }

 private:
  enum class Ending { kDone, kRequest, kRule };

  // solver.cc
  void Allocate();
  void PlanNets();
  void PlanTrainNet(const PlanOptions& options);
  void PlanTestNets(const PlanOptions& options);
  void MakeRules();
  RunWeights RunWeightsNow();
  // Saves all that tests change.
  void SaveDecisions(SolverState* state) const;
  SolverState MakeState();

  // solver_iterate.cc. These four return false or nothing for an iteration that was given up, which
  // one with a `rate` or without `may_stop` never is.
  bool Train();
  std::optional<double> ForwardBackward(bool may_stop);
  // Sums over the ranks, which exchange their losses and what they are asked for before.
  double SumGradients(double loss, bool may_stop);
  bool IterateOnGpu(std::optional<double> rate);
  bool QueuePasses(bool may_stop, QueuedIteration* queued);
  double ForwardOnce();  // throws kDiverged for a loss that is not finite
  // Returns false if the update was skipped. Throws kDiverged if a weight or history is not finite.
  bool ApplyUpdate(double rate);
  bool GivesUp(int pass);  // before each pass
  bool KnowsEachLoss() const;
  // Drain the iterations that the GPU has completed, or with `wait` all queued ones.
  void DrainCompletedIterations(bool wait);
  bool DrainOneIteration(bool wait);  // false: there was none
  void DrainOutcome(QueuedIteration* queued, const DeviceRun& outcome);
  void ReportWhyNoGraph();
  Error Diverged(const PassMark& mark, double loss, int64_t iteration);
  DivergedRun RunSoFar(int64_t iteration) const;

  // solver_loop.cc
  void Limited(const std::function<void()>& body);
  void SolveAll();
  Ending RunTo(int64_t end);
  void ReportDrop(double rate);  // of plateau
  void Report(double loss, double rate);
  IterationReport ReportOf(double rate);
  void Deliver(double loss, IterationReport* report);
  void CountEpochsOnce();
  double WaitedSeconds() const;
  bool IsTestDue() const;
  Ending TestHere();
  TestReport RunTest(size_t net);
  // Returns true if each rank runs a part of this test.
  bool SharesTest(size_t net) const;
  TestReport RunSharedTest(size_t net);
  TestReport WithEpoch(TestReport report);
  void PollInTest();                                   // throws kCancelled
  bool Judge(const std::vector<TestReport>& reports);  // true: early_stop ends the run
  void UpdateBest(const std::vector<TestReport>& reports);
  void WarnOfLoss(const TestReport& report);
  Request Poll();
  void TrySnapshot();
  void LastSnapshot();
  // All ranks make these calls.
  void StartRanks();
  Ending TestAll();
  void HelpToTest();  // the ranks above 0
  Request PollAll();
  void GatherPositions();

  RunConfig config_;
  SolverOptions options_;
  const SolverParameter& param_;
  const Registry& registry_;
  uint64_t seed_;
  RankedRun ranks_;
  SnapshotKeeper snapshots_;
  std::shared_ptr<const Plan> train_plan_;
  std::shared_ptr<Weights> weights_;
  std::unique_ptr<Session> train_;
  std::vector<std::string> frozen_;
  std::optional<Updater> updater_;  // once the training net is planned
  std::vector<std::unique_ptr<TestNet>> tests_;
  Epochs epochs_;
  bool epochs_counted_ = false;
  std::optional<LearningRate> rate_;  // once max_iter is known
  bool start_checked_ = false;
  LossWindow losses_;
  PassMark mark_;                   // before the last forward pass
  IterationStart start_;            // of an iteration with several passes
  bool snapshot_asked_ = false;     // between its passes
  double pass_seconds_ = 0;         // of the last iteration, without sums over ranks
  Request asked_ = Request::kNone;  // of any rank, until the last losses were exchanged
  QueuedIterations queued_;         // on a GPU
  double drained_loss_ = 0;         // of the last of them
  bool no_graph_reported_ = false;
  bool test_loss_reported_ = false;  // that one was not finite
  std::optional<MetricTracker> best_;
  std::optional<MetricTracker> early_;
  // SaveDecisions before the tests of this iteration, which a run that is resumed here repeats.
  // Unset if there were none.
  std::optional<SolverState> before_tests_;
  Deadline deadline_;
  bool deadline_reported_ = false;
  int64_t iteration_ = 0;
  std::chrono::steady_clock::time_point last_report_;
  double test_seconds_ = 0;  // since then
  double waited_ = 0;        // for data, until then
};

}  // namespace crema
