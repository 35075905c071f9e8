// Layers that set the initial values of their parameters, in place of fillers.
#pragma once

#include "core/tensor.h"

namespace crema {

// An additional base of a Layer. Thread safety: const.
class HasInitialParameters {
 public:
  virtual ~HasInitialParameters() = default;
  // Sets the parameter blob with this index of the layer.
  virtual void SetInitial(size_t index, const TensorView& blob) const = 0;
};

}  // namespace crema
