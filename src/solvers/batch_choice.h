// The largest batch of a run that memory allows.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "graph/registry.h"
#include "plan/plan.h"
#include "solvers/solver_config.h"

namespace crema {

constexpr int64_t kLargestChosenBatch = 1024;

struct BatchChoice {
  int64_t batch = 0;
  int64_t written = 0;  // of the text
  int64_t needed = 0;   // bytes of the run with this batch
  std::string limit;    // the reason why it is not larger
};

// Returns the batch of the data layers of the training net, with which the run needs at most nine
// tenths of `memory` bytes: a multiple of 8, or 1, 2 or 4; at most kLargestChosenBatch and the
// number of samples. Plans the nets several times with `options`, but runs nothing. `config_of`
// returns the run with this batch; 0: that of the text. Throws what planning the text throws;
// kInvalidArgument if the batch is written elsewhere in the net too (Reshape), or if it has no data
// layer with a batch_size; kOutOfMemory if not even a batch of 1 fits.
BatchChoice ChooseBatch(const std::function<RunConfig(int64_t batch)>& config_of,
                        const Registry& registry, const PlanOptions& options, int64_t memory);

}  // namespace crema
