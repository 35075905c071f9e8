// Helpers for GPU implementations.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/implementation.h"
#include "graph/registry.h"
#include "math/cuda/launch.cuh"

namespace crema {

inline Support SupportsCudaFloats(const OpDesc& query) {
  if (IsCudaFloat(query.context.dtype)) return {};
  return Support::No("is for f32, f16 and bf16");
}

// Makes the native GPU implementation, named "cuda" by default. `more` holds its other functions.
// Base = StatefulImplementation<State> creates a State(op) for each layer.
template <typename Base = FunctionImplementation>
ImplementationPtr MakeCudaImplementation(void (*forward)(const Layer&, const ForwardArgs&),
                                         void (*backward)(const Layer&, const BackwardArgs&),
                                         ImplementationFunctions more = {},
                                         std::string name = "cuda") {
  more.forward = forward;
  more.backward = backward;
  if (more.supports == nullptr) more.supports = SupportsCudaFloats;
  return MakeSimpleImplementation<Base>({.name = std::move(name), .device = DeviceType::kCuda},
                                        more);
}

// Calls add(implementation) for each GPU implementation of `type` on f32 blobs, in reverse order of
// preference, because each added one becomes the first choice.
template <typename Add>
void AddVariants(const std::string& type, const Registry& registry, const Add& add) {
  std::vector<ImplementationPtr> implementations = registry.Find(type)->implementations;
  std::ranges::reverse(implementations);
  size_t added = 0;
  for (const ImplementationPtr& implementation : implementations) {
    const bool f32 = !implementation->input_format.type && !implementation->output_format.type;
    if (implementation->device != DeviceType::kCuda || !f32) continue;
    add(implementation);
    ++added;
  }
  CREMA_CHECK(added > 0);
}

// Returns the elements of a view; null for an empty view.
template <typename T>
const T* Elements(const ConstTensorView& view) {
  return static_cast<const T*>(view.raw());
}
template <typename T>
T* Elements(const TensorView& view) {
  return static_cast<T*>(view.raw());
}

// Returns views[index], or an empty view if `views` is shorter.
inline TensorView At(std::span<const TensorView> views, size_t index) {
  return index < views.size() ? views[index] : TensorView();
}

}  // namespace crema
