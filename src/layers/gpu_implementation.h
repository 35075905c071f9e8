// What implementations on GPUs have in common.
#pragma once

#include <span>

#include "graph/registry.h"
#include "math/cuda/launch.cuh"

namespace crema {

inline Support SupportsCudaFloats(const OpDesc& query) {
  if (IsCudaFloat(query.context.dtype)) return {};
  return Support::No("is for f32, f16 and bf16");
}

// An implementation "cuda", the native one of GPUs.
inline Implementation MakeCudaImplementation(void (*forward)(const Layer&, const ForwardArgs&),
                                             void (*backward)(const Layer&, const BackwardArgs&)) {
  Implementation implementation;
  implementation.name = "cuda";
  implementation.device = DeviceType::kCuda;
  implementation.supports = SupportsCudaFloats;
  implementation.forward = forward;
  implementation.backward = backward;
  return implementation;
}

// Null for an empty view.
template <typename T>
const T* Elements(const ConstTensorView& view) {
  return static_cast<const T*>(view.raw());
}
template <typename T>
T* Elements(const TensorView& view) {
  return static_cast<T*>(view.raw());
}

// Element `index` of arguments that may be missing at the end.
inline TensorView At(std::span<const TensorView> views, size_t index) {
  return index < views.size() ? views[index] : TensorView();
}

}  // namespace crema
