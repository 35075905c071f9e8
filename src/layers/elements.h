// Elements of views, as the type that the caller dispatched on; also types of the GPU alone.
#pragma once

#include <type_traits>

#include "core/tensor.h"

namespace crema {

// Returns the elements of a view; null for an empty view.
template <typename T, bool kConst>
auto Elements(const BasicTensorView<kConst>& view) {
  // GPU half types have no DTypeOf.
  if constexpr (std::is_floating_point_v<T>) {
    CREMA_CHECK(view.empty() || view.dtype() == DTypeOf<T>::value);
  }
  using Element = typename BasicTensorView<kConst>::template Element<T>;
  return static_cast<Element*>(view.raw());
}

}  // namespace crema
