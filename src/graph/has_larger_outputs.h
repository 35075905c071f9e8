// Layers whose outputs may outgrow the plan while they run.
#pragma once

#include <cstddef>

#include "core/tensor.h"

namespace crema {

// An additional base of a Layer with dynamic_outputs. In a session whose values can grow, Forward
// may set output_shapes larger than `outputs`; it then keeps the values of such an output. Thread
// safety: const.
class HasLargerOutputs {
 public:
  virtual ~HasLargerOutputs() = default;
  // Copies the output that the last Forward has kept.
  virtual void CopyOutput(size_t output, const TensorView& to) const = 0;
};

}  // namespace crema
