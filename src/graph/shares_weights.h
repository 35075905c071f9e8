// Rows whose states can use what others have made of the same weights.
#pragma once

#include "math/kept_weights.h"

namespace crema {

// Base of a KernelState, besides that one. Thread safety: one thread at a time.
class SharesWeights {
 public:
  virtual ~SharesWeights() = default;
  // What this state has made of fixed weights; null: nothing yet.
  virtual SharedKeptWeights Kept() const = 0;
  // Uses what a state of this row made of the very same learned blobs of one layer (and of those
  // that it absorbed), and forgets its own. False where it was made for other extents, in which
  // case nothing happens.
  virtual bool TakeKept(const SharedKeptWeights& kept) = 0;
};

}  // namespace crema
