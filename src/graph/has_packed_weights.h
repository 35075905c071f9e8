// Implementations whose states can use what others have made of the same weights.
#pragma once

#include "math/packed_weights.h"

namespace crema {

// Base of an ImplementationState, besides that one. Thread safety: one thread at a time.
class HasPackedWeights {
 public:
  virtual ~HasPackedWeights() = default;
  // What this state has made of fixed weights; null: nothing yet.
  virtual SharedPackedWeights ExportPacked() const = 0;
  // Uses what a state of this implementation made of the very same learned blobs of one layer (and
  // of those that it fused), and forgets its own. False where it was made for other extents, in
  // which case nothing happens.
  virtual bool ImportPacked(const SharedPackedWeights& shared) = 0;
};

}  // namespace crema
