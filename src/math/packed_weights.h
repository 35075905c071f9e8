// What rows have made of weights that stay as they are.
#pragma once

#include <memory>

namespace crema {

// Weights in the order or the transformation that some code likes, which each derives for itself.
// Immutable once it was handed out. Thread safety: any number of threads.
class PackedWeights {
 public:
  virtual ~PackedWeights() = default;
};

using SharedPackedWeights = std::shared_ptr<const PackedWeights>;

}  // namespace crema
