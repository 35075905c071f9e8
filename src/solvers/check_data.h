// Runs a net forward over some of its data, to check that they can be read and are in range.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/error.h"
#include "graph/registry.h"
#include "runtime/session.h"
#include "runtime/weights.h"
#include "solvers/check_run.h"

namespace crema {

struct DataCheck {
  const NetOfRun& net;
  const Registry& registry;
  int threads = 1;
  uint64_t seed = 1;
  int64_t samples = 0;
  std::function<void(const Session&)> on_open;  // once the sources are open; may be empty
};

// Returns the problems of the batches, at most ten: batches after a bad one are checked too. A
// problem of several batches occurs once, with their number. Layers found in `weights` use them,
// and nothing is changed. Fills batch, epoch, samples and loss of `checked`. Throws errors that
// keep the net as a whole from running.
std::vector<Problem> CheckData(const DataCheck& check, const Weights& weights, CheckedNet* checked);

}  // namespace crema
