// Layers that take inputs of other element types than the net's.
#pragma once

#include <cstddef>

#include "graph/layer.h"

namespace crema {

// A layer that is one of these says itself what its inputs may be; all others take only elements of
// the net's type, which planning checks before it asks Infer. Thread safety: const.
class InputTypes {
 public:
  virtual ~InputTypes() = default;
  // The element type that input `index` must have, where what is there has `given`: `given` itself
  // when that will do. `net` is the type of the net.
  virtual DType InputType(size_t index, DType given, DType net) const = 0;
};

// The same for any layer.
inline DType InputTypeOf(const Layer& layer, size_t index, DType given, DType net) {
  const auto* types = dynamic_cast<const InputTypes*>(&layer);
  return types == nullptr ? net : types->InputType(index, given, net);
}

// A layer that does not look at the elements of its inputs. Base of Split and the like.
class AnyInputType : public InputTypes {
 public:
  DType InputType(size_t, DType given, DType) const override { return given; }
};

}  // namespace crema
