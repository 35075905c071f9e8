// A training run: nets, weights, update rule, schedule, snapshots.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/log.h"
#include "graph/registry.h"
#include "runtime/session.h"
#include "solvers/learning_rate.h"
#include "solvers/loss_window.h"
#include "solvers/solver_config.h"
#include "solvers/training_observer.h"
#include "solvers/update_rule.h"

namespace crema {

// What the outside may ask of a run between two iterations or two test batches.
enum class Request { kNone, kSnapshot, kStop };

struct SolverOptions {
  int threads = 0;  // 0: all processors
  LogSink* log = nullptr;
  TrainingObserver* observer = nullptr;
  std::function<Request()> poll;  // empty: nobody asks
  // Seed of the run; unset: random_seed of the solver, or a random one where that is negative. To
  // resume bit for bit, give the seed of the state.
  std::optional<uint64_t> seed;
};

// Thread safety: one thread; several solvers may run in threads of one process.
class Solver {
 public:
  // Plans all nets and allocates them. Throws Error with all problems of a net at once. `registry`
  // must outlive the solver.
  Solver(RunConfig config, const Registry& registry, SolverOptions options);

  // Starts from the weights of caffemodels, in order; layers they do not hold keep their values.
  void LoadWeights(const std::vector<std::string>& paths,
                   OnMismatch on_mismatch = OnMismatch::kError);
  // Goes on where a snapshot was taken.
  void Restore(const std::string& state_path);

  // Trains to max_iter, with tests and snapshots, and the closing test. Throws kDiverged when the
  // loss is no longer finite; snapshots written before stay.
  void Solve();
  // Runs `count` iterations, with tests and snapshots. False: stopped by a request.
  bool Step(int64_t count);
  // Runs one test net for its test_iter batches.
  TestReport Test(size_t net);
  void Snapshot();

  // One iteration at this rate, without test, snapshot and report; its loss. Throws kDiverged.
  double Iterate(double rate);
  // Runs `body`, then puts back what iterations change: weights, history, data position, random
  // state, number of the iteration; also when it throws.
  void WithoutTrace(const std::function<void()>& body);

  int64_t iteration() const { return iteration_; }
  uint64_t seed() const { return seed_; }
  const RunConfig& config() const { return config_; }
  const Plan& plan() const { return *train_plan_; }
  const Plan& test_plan(size_t net) const { return tests_[net]->plan(); }
  size_t test_count() const { return tests_.size(); }
  Session& session() { return *train_; }
  Weights& weights() { return *weights_; }

 private:
  void PlanNets(const Registry& registry);
  void AllocateHistory();
  double ForwardBackward();
  void ApplyUpdate(double rate);
  double GradientScale();
  void RefuseBrokenLoss(double loss) const;
  void Report(double loss, double rate);
  bool TestAll();  // false: a stop was asked meanwhile
  bool IsTestDue() const;
  Request Poll() { return options_.poll ? options_.poll() : Request::kNone; }
  SolverState MakeState() const;
  void RefuseBrokenWeights() const;
  void CheckSchedule(const SolverState& state, const std::string& path) const;
  void WarnWhereNothingIsLearned(const Session& test, size_t net) const;
  void RestoreHistory(const SolverState& state, const std::string& path);
  void Warn(const std::vector<Problem>& warnings);
  std::vector<OutputValue> OutputsOf(const Session& session) const;

  RunConfig config_;
  SolverOptions options_;
  const SolverParameter& param_;
  const UpdateRule& rule_;
  uint64_t seed_;
  std::shared_ptr<const Plan> train_plan_;
  std::shared_ptr<Weights> weights_;
  std::unique_ptr<Session> train_;
  std::vector<std::unique_ptr<Session>> tests_;
  std::vector<Tensor> history_memory_;
  std::vector<std::vector<TensorView>> history_;  // by learned slot; empty when it is shared
  LearningRate rate_;
  LossWindow losses_;
  int64_t iteration_ = 0;
  int64_t snapshot_iteration_ = -1;  // of the last snapshot
  bool restored_ = false;
};

}  // namespace crema
