// Passes over the training data, counted in iterations.
#pragma once

#include <cstdint>

#include "format/prototxt.h"
#include "runtime/session.h"

namespace crema {

// Thread safety: const.
class Epochs {
 public:
  Epochs() = default;  // data without an end
  // Requires: both above 0.
  Epochs(int64_t samples, int64_t samples_per_iteration)
      : samples_(samples), per_iteration_(samples_per_iteration) {}

  bool known() const { return samples_ > 0; }
  int64_t samples() const { return samples_; }  // of a pass; 0 if unknown
  // Returns the passes after this number of iterations; 0 if unknown.
  double After(int64_t iterations) const;
  // Returns the iterations that complete `epochs` passes. Requires: known.
  int64_t IterationsOf(int64_t epochs) const;
  // Returns true if a multiple of `every` passes ends after exactly `iterations`; also at 0.
  bool EndsAt(int64_t iterations, int64_t every) const;

 private:
  int64_t Count(int64_t iterations, int64_t every) const;

  int64_t samples_ = 0;
  int64_t per_iteration_ = 0;
};

// Returns the epochs of a training net. Unknown if all sources are endless, or if data layers
// disagree on the size of a pass.
Epochs EpochsOf(const Session& train, int iter_size);
// The same; throws kInvalidArgument that names `field`, which counts in epochs, if unknown.
Epochs RequireEpochs(const Session& train, int iter_size, const char* field);

// Returns the epochs that fields of a solver count in, unknown if none does; train and check share
// this. Sets max_iter if max_epoch is set: policies that depend on the end of the run need it
// before the first iteration. Throws kInvalidArgument, with the position of the field, if the data
// are endless or the iterations cannot be counted.
Epochs CountEpochs(const Session& train, SolverFile* solver);

}  // namespace crema
