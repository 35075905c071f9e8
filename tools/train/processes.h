// Training in several processes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/log.h"
#include "format/field_setting.h"
#include "parallel/process_ranks.h"
#include "solvers/solver.h"

namespace crema::tools {

// This process, as one of the ranks of a run. Rank 0 decides, logs to the terminal, tests and
// writes snapshots; the others follow. All must make the same calls in the same order. Thread
// safety: one thread.
class TrainProcesses {
 public:
  // Meets the other processes. Returns null if this one was started alone, or with
  // --transport=none. Throws kInvalidArgument for wrong flags, kUnsupported and kDeviceFailure like
  // StartTransport.
  static std::unique_ptr<TrainProcesses> Meet();
  TrainProcesses(const TrainProcesses&) = delete;
  TrainProcesses& operator=(const TrainProcesses&) = delete;
  ~TrainProcesses();

  bool is_first() const { return ranks_->rank() == 0; }
  int size() const { return ranks_->size(); }

  // Runs the body of this rank and leaves the run. Returns the exit code of the body, or of the
  // first error of any rank, which reaches the terminal once.
  int Run(const std::function<int()>& body);

  // Returns the settings of rank 0, which makes them by `settings`.
  std::vector<FieldSetting> Share(const std::function<std::vector<FieldSetting>()>& settings);
  // Adds the ranks to the options, and this rank's share of the processors if --threads is 0.
  void Complete(SolverOptions* options) const;
  // Rank 0: lets the others make their solvers, and waits for them. `config` is as read, `state` is
  // the path that `first` was restored from, or empty.
  void StartOthers(const RunConfig& config, Solver* first, const std::string& state, LogSink& log);
  // Calls solver->Solve() in this rank.
  void Solve(Solver* solver);
  // The others: trains with the solver of rank 0. `config` and `options` are those of rank 0.
  void Follow(const RunConfig& config, const Registry& registry, SolverOptions options);

 private:
  class FollowerLog;

  TrainProcesses(std::shared_ptr<Transport> transport, std::unique_ptr<ProcessRanks> ranks);
  void ShareProcessors();
  std::string Describe() const;
  void CheckSame(const RunConfig& config, Solver& solver);
  int Report() const;
  void MeetAtEnd(int code);
  [[noreturn]] void AbortAll(int code) const;

  struct Place {
    std::string host;
    std::string processors;  // a bit for each
    int threads = 1;
  };

  std::shared_ptr<Transport> transport_;
  std::unique_ptr<ProcessRanks> ranks_;
  std::vector<Place> places_;  // by rank
  std::unique_ptr<FollowerLog> log_;
};

}  // namespace crema::tools
