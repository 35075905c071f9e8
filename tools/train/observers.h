// Output and recording of a training, as the flags specify.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/live_line.h"
#include "core/log.h"
#include "crema.pb.h"
#include "report/pace.h"
#include "report/run_folder.h"
#include "report/run_recorder.h"
#include "solvers/caffe_log.h"
#include "solvers/solver.h"
#include "solvers/training_observer.h"
#include "train/next_steps.h"

namespace crema::tools {

// Returns the folder that --run names, else that of the snapshot prefix; empty: no folder.
std::string RunFolderOfFlag(const std::string& prefix, RunStart start);

// Shows the live line on a terminal, otherwise Caffe's lines or JSON; after Record, also writes the
// run's folder. Thread safety: one thread; log() may be used by any.
class TrainObservers {
 public:
  explicit TrainObservers(const SolverParameter& solver);
  ~TrainObservers();

  TrainingObserver& observer() { return observers_; }
  // The log for the solver and the library; keeps messages and the live line apart.
  LogSink& log() { return *log_; }

  // Opens the run's folder (--run). Call it after weights are loaded and the state is restored.
  // `start` says if the run is resumed; `command` is recorded. Throws like RunFolder if --run names
  // the folder; returns false, with a warning, if the default one cannot be created. `solver` must
  // outlive this.
  bool Record(Solver& solver, RunStart start, const std::vector<std::string>& command);

  // Prints the results, and the commands that continue from them, to stdout; nothing with --quiet.
  void PrintNextSteps(const RunConfig& config, const std::vector<std::string>& command) const;

  // From here on, the terminal shows the live line.
  void TakeTerminal();

 private:
  class TerminalLog;

  std::unique_ptr<LiveLine> live_line_;  // null: no live line
  std::unique_ptr<TerminalLog> terminal_log_;
  std::unique_ptr<TrainingObserver> lines_;
  LogSink* log_;
  std::unique_ptr<WaitHint> wait_hint_;
  std::unique_ptr<RankHint> rank_hint_;
  std::unique_ptr<RunRecorder> recorder_;
  NextSteps next_steps_;
  ObserverList observers_;
};

}  // namespace crema::tools
