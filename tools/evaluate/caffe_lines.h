// The lines that `caffe test` logs.
#pragma once

#include <cstdint>

#include "core/log.h"
#include "runtime/epoch_runner.h"
#include "runtime/session.h"

namespace crema::tools {

// Thread safety: one thread.
class CaffeLines {
 public:
  // `log` must outlive this.
  CaffeLines(LogSink& log, int64_t iterations) : log_(log), iterations_(iterations) {}

  // Logs "Batch 0, accuracy = 0.98" for each element of each output, but not for labels that no
  // layer reads; before the first batch also "Running for 50 iterations.".
  void OnBatch(const Session& session);
  // Logs "Loss: 0.06" and "accuracy = 0.98".
  void OnEnd(const Evaluation& result);

 private:
  LogSink& log_;
  const int64_t iterations_;
  int64_t batch_ = 0;
};

}  // namespace crema::tools
