// What a training shows and records, as the flags say.
#pragma once

#include <memory>

#include "common/live_line.h"
#include "core/log.h"
#include "report/run_recorder.h"
#include "report/wait_hint.h"
#include "solvers/caffe_log.h"
#include "solvers/observer_list.h"
#include "solvers/solver.h"

namespace crema::tools {

// On a terminal the live line, otherwise Caffe's lines or JSON; with Record, the run's folder.
// Thread safety: one thread; what log() gives takes messages of any.
class TrainObservers {
 public:
  explicit TrainObservers(const SolverParameter& solver);
  ~TrainObservers();

  TrainingObserver& observer() { return observers_; }
  // For the solver and the library: keeps messages and the live line apart.
  LogSink& log() { return *log_; }

  // Opens the run's folder (--run). After weights are loaded and the state is restored. `start`
  // says whether the run is resumed. Throws as RunFolder where --run names the folder; only warns
  // where the default one cannot be made. `solver` must outlive this.
  void Record(Solver& solver, RunStart start, int threads);

  // From here on the terminal is the live line's.
  void TakeTerminal();

 private:
  class TerminalLog;

  std::unique_ptr<LiveLine> live_line_;  // null where there is none
  std::unique_ptr<TerminalLog> terminal_log_;
  std::unique_ptr<TrainingObserver> lines_;
  LogSink* log_;
  std::unique_ptr<WaitHint> wait_hint_;
  std::unique_ptr<RunRecorder> recorder_;
  ObserverList observers_;
};

}  // namespace crema::tools
