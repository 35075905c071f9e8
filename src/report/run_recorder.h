// Records one training in the folder of its run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/log.h"
#include "report/metrics_writer.h"
#include "report/run_folder.h"
#include "report/tensorboard_writer.h"
#include "solvers/solver.h"
#include "solvers/training_observer.h"

namespace crema {

struct RecorderOptions {
  std::string folder;
  RunStart start = RunStart::kFresh;
  std::vector<std::string> command;  // program and arguments, for run.json
  int threads = 0;                   // for run.json
  int64_t interval = 0;              // of rows and scalars; 0: displayed iterations
  int64_t histogram_interval = 0;    // 0: no histograms
};

// Thread safety: one thread.
class RunRecorder {
 public:
  // Call it after weights are loaded and the state is restored. Throws like RunFolder; later
  // problems only cause warnings. `solver` and `log` must outlive this.
  RunRecorder(Solver& solver, const RecorderOptions& options, LogSink& log);

  TrainingObserver& observer() { return observers_; }
  const RunFolder& folder() const { return folder_; }

 private:
  RunFolder folder_;
  GrowingFile starts_;
  MetricsWriter metrics_;
  TensorboardWriter events_;
  ObserverList observers_;
};

}  // namespace crema
