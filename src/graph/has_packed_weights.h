// Implementations whose states can share packed weights.
#pragma once

#include "math/packed_weights.h"

namespace crema {

// An additional base of an ImplementationState. Thread safety: one thread at a time.
class HasPackedWeights {
 public:
  virtual ~HasPackedWeights() = default;
  // Returns the packed form of fixed weights; null: nothing yet.
  virtual SharedPackedWeights ExportPacked() const = 0;
  // Uses the packed weights that a state of this implementation exported for the same parameters of
  // one layer (and of the layers fused into it), and frees its own. Returns false, without changes,
  // if they are for other shapes.
  virtual bool ImportPacked(const SharedPackedWeights& shared) = 0;
};

}  // namespace crema
