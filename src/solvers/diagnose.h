// Finds out why a training run is no longer finite, by running the same batch again layer by layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/error.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "runtime/session.h"
#include "runtime/weights.h"
#include "solvers/device_run.h"
#include "solvers/solver_config.h"

namespace crema {

// The position of a session before a forward pass. Taking it needs less than a microsecond and,
// after the first time, no memory. Thread safety: one thread at a time.
class PassMark {
 public:
  void Take(const Session& session);

  uint64_t step() const { return step_; }
  const SolverState& readers() const { return readers_; }  // of the net "train"

 private:
  uint64_t step_ = 0;
  SolverState readers_;
};

// Facts about the run, for messages.
struct DivergedRun {
  int64_t iteration = 0;
  double rate = 0;                 // learning rate of that iteration
  double gradient_scale = 1;       // factor of the session's gradients in the update
  std::string last_snapshot = {};  // the last model written, whose weights are finite; empty: none
};

// The faulty layer of such a pass.
struct BrokenPass {
  std::string layer = {};    // empty: unknown
  std::string text = {};     // the reason, in sentences without the last full stop
  std::string samples = {};  // of the batch, "'a' to 'b'"; empty: no names, or they are in `text`
};

// Diagnoses a pass that began at `mark`, whose loss was not finite; see DiagnoseDivergence.
// `iteration` is the number of updates before it.
BrokenPass DiagnosePass(const NetOfRun& net, const Registry& registry, const Session& session,
                        const Weights& weights, const PassMark& mark, int64_t iteration);

// Returns "nan" or "-inf": the sign of a NaN is omitted, as it means nothing.
std::string PrintNumber(double value);

// Returns the error of a run whose loss was not finite in the pass that began at `mark`: kDiverged,
// naming the first layer and whether data, weights or the layer's own arithmetic are at fault.
// Plans the net again with every blob kept, and repeats that pass with the current weights, which
// it does not change. Needs memory for that; if it is not available, or the data cannot be read
// again, the error says less.
Error DiagnoseDivergence(const NetOfRun& net, const Registry& registry, const Session& session,
                         const Weights& weights, const PassMark& mark, double loss,
                         const DivergedRun& run);

// Returns the error of a run whose update of parameter slot `slot` gave values that are not finite.
// Examines the gradients in the order of backward and names the first layer whose gradient is not
// finite; if all are finite, the step was too large. The gradients are those of the session, or as
// described in `reports`, by parameter slot.
Error DiagnoseUpdate(Session& session, size_t slot, const DivergedRun& run);
Error DiagnoseUpdate(const Plan& plan, const std::vector<GradientReport>& reports, size_t slot,
                     const DivergedRun& run);

}  // namespace crema
