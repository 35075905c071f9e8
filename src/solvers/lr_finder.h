// Finds a suitable learning rate by a short training with a growing rate. [Smith 2015,
// arXiv:1506.01186]
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "format/prototxt.h"
#include "solvers/solver.h"

namespace crema {

struct LrFinderOptions {
  double start = 1e-7;
  double end = 10;
  int64_t iterations = 100;  // from start to end, the rate grows by a constant factor; at least 10
};

struct LrFinding {
  struct Point {
    double rate = 0;
    double loss = 0;      // before the update with this rate
    double smoothed = 0;  // over its neighbours on both sides, so that it does not lag
  };
  std::vector<Point> points;   // finite losses only
  bool diverged = false;       // ended early: the loss was four times its best, or not finite
  size_t lowest = 0;           // the point of the lowest smoothed loss, excluding the ends
  bool still_falling = false;  // ... and the search ended before the loss rose again
  // The point up to `lowest` where the smoothed loss falls fastest in log(rate); unset: `reason`
  // says why there is none.
  std::optional<size_t> suggested;
  std::string reason;
};

// Trains with rates from start to end and restores everything: weights, history, data position,
// random state. Throws kInvalidArgument for options out of range and for a training net that writes
// a file (HDF5Output).
LrFinding FindLearningRate(const LrFinderOptions& options, Solver* solver);

// Throws kInvalidArgument for options out of range.
void CheckLrFinderOptions(const LrFinderOptions& options);

// Fills in `smoothed`, `lowest`, `suggested` and `reason` from the losses.
void JudgeLosses(LrFinding* finding);

// Returns the solver for the search: the same net, update rule and data; without tests, snapshots,
// limits and policy, whose fields may be missing or wrong.
SolverFile SolverForFinding(SolverFile file, const LrFinderOptions& options);

}  // namespace crema
