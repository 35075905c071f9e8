// Weights reordered or transformed for one implementation.
#pragma once

#include <memory>

namespace crema {

// Weights reordered or transformed for one implementation, which derives a class. Immutable once
// shared. Thread safety: any number of threads.
class PackedWeights {
 public:
  virtual ~PackedWeights() = default;
};

using SharedPackedWeights = std::shared_ptr<const PackedWeights>;

}  // namespace crema
