// Layers whose inputs may have other element types than the net's.
#pragma once

#include <cstddef>

#include "graph/layer.h"

namespace crema {

// A layer that derives from this declares the types of its inputs; all others accept only the net's
// type, which planning checks before it calls Infer. Thread safety: const.
class InputTypes {
 public:
  virtual ~InputTypes() = default;
  // Returns the element type that input `index` must have if its value has `given`: `given` itself
  // if that is accepted. `net` is the type of the net.
  virtual DType InputType(size_t index, DType given, DType net) const = 0;
};

// The same for any layer.
inline DType InputTypeOf(const Layer& layer, size_t index, DType given, DType net) {
  const auto* types = dynamic_cast<const InputTypes*>(&layer);
  return types == nullptr ? net : types->InputType(index, given, net);
}

// A layer that does not read the elements of its inputs. Base of Split and the like.
class AnyInputType : public InputTypes {
 public:
  DType InputType(size_t, DType given, DType) const override { return given; }
};

}  // namespace crema
