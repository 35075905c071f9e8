// Elements of views, as the type that the caller dispatched on; also types of the GPU alone.
#pragma once

#include "core/tensor.h"

namespace crema {

// Returns the elements of a view; null for an empty view.
template <typename T>
const T* Elements(const ConstTensorView& view) {
  return static_cast<const T*>(view.raw());
}
template <typename T>
T* Elements(const TensorView& view) {
  return static_cast<T*>(view.raw());
}

}  // namespace crema
