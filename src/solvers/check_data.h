// Runs a net forward over some of its data, to see whether all of them can be read and are in
// range.
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

// The problems of the batches, one a batch and ten at most: what is behind a bad batch is looked at
// too. Those that several batches have are there once, with their number. Layers that `weights`
// knows run with them, and change nothing. Fills batch, epoch, samples and loss of `checked`.
// Throws what makes the net as a whole unable to run.
std::vector<Problem> CheckData(const DataCheck& check, const Weights& weights, CheckedNet* checked);

}  // namespace crema
