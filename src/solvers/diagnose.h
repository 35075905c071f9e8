// Why a training run is no longer finite: the same batch once more, looked at layer by layer.
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

// Where a session stands before a forward pass. Taking it costs less than a microsecond and, after
// the first time, no memory. Thread safety: one thread at a time.
class PassMark {
 public:
  void Take(const Session& session);

  uint64_t step() const { return step_; }
  const SolverState& readers() const { return readers_; }  // of the net "train"

 private:
  uint64_t step_ = 0;
  SolverState readers_;
};

// What messages say about the run.
struct DivergedRun {
  int64_t iteration = 0;
  double rate = 0;                 // learning rate of that iteration
  double gradient_scale = 1;       // what the update multiplies gradients of the session with
  std::string last_snapshot = {};  // the model written last, whose weights are finite; empty: none
};

// Which layer of such a pass is at fault.
struct BrokenPass {
  std::string layer = {};  // empty: not known
  std::string text = {};   // why, in sentences without the last full stop
  std::string samples =
      {};  // of the batch, "'a' to 'b'"; empty: they have no names, or `text` has them
};

// Of a pass that began at `mark`, whose loss was not finite; see DiagnoseDivergence. `iteration` is
// the number of updates that the weights have behind them.
BrokenPass DiagnosePass(const NetOfRun& net, const Registry& registry, const Session& session,
                        const Weights& weights, const PassMark& mark, int64_t iteration);

// "nan" or "-inf": without the sign of a NaN, which means nothing.
std::string PrintNumber(double value);

// The error of a run whose loss was not finite in the pass that began at `mark`: kDiverged, naming
// the first layer and whether data, weights or the layer's own arithmetic are at fault. Plans the
// net once more with every blob kept, and runs that pass again with the weights as they are (which
// it leaves so). Needs memory for that; where it cannot be had, or the data cannot be read again,
// the error says less.
Error DiagnoseDivergence(const NetOfRun& net, const Registry& registry, const Session& session,
                         const Weights& weights, const PassMark& mark, double loss,
                         const DivergedRun& run);

// The error of a run where the update of learned slot `slot` gave values that are not finite.
// Looks at the gradients in the order of backward and names the first layer whose gradient is not
// finite; where all are finite, the step was too large. The gradients are those of the session, or
// what `reports` says of them, by learned slot.
Error DiagnoseUpdate(Session& session, size_t slot, const DivergedRun& run);
Error DiagnoseUpdate(const Plan& plan, const std::vector<GradientReport>& reports, size_t slot,
                     const DivergedRun& run);

}  // namespace crema
