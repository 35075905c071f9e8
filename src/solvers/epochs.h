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
  // Passes after so many iterations; 0 when they are not known.
  double After(int64_t iterations) const;
  // Iterations until `epochs` passes are over. Requires: known.
  int64_t IterationsOf(int64_t epochs) const;
  // After exactly so many iterations a multiple of `every` passes came to its end; also at 0.
  bool EndsAt(int64_t iterations, int64_t every) const;

 private:
  int64_t Count(int64_t iterations, int64_t every) const;

  int64_t samples_ = 0;
  int64_t per_iteration_ = 0;
};

// Of the data layers of a training net. Not known where no source has an end, or where they do not
// agree on what a pass is.
Epochs EpochsOf(const Session& train, int iter_size);
// The same; throws kInvalidArgument that names `field`, which counts in epochs, where not known.
Epochs RequireEpochs(const Session& train, int iter_size, const char* field);

// Those that the fields of a solver count in, and not known where none does; train and check share
// this. Sets max_iter where max_epoch is: policies that know the end of the run want it before the
// first iteration. Throws kInvalidArgument, with the place of the field, where the data have no end
// or the iterations cannot be counted.
Epochs CountEpochs(const Session& train, SolverFile* solver);

}  // namespace crema
