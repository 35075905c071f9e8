// What implementations on GPUs have in common.
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

// An implementation "cuda", the native one of GPUs. `more` has the other functions; a State(op) is
// made by Base = StatefulImplementation<State>.
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

// Calls add(implementation) for each implementation of the type on blobs of f32 of a GPU, the most
// preferred one last: each that is added goes to the front.
template <typename Add>
void AddVariants(const std::string& type, const Registry& registry, const Add& add) {
  std::vector<ImplementationPtr> implementations = registry.Find(type)->implementations;
  std::ranges::reverse(implementations);
  size_t added = 0;
  for (const ImplementationPtr& implementation : implementations) {
    const bool f32 = RowMajor(implementation->input_format) == MemoryFormat::kPlain &&
                     RowMajor(implementation->output_format) == MemoryFormat::kPlain;
    if (implementation->device != DeviceType::kCuda || !f32) continue;
    add(implementation);
    ++added;
  }
  CREMA_CHECK(added > 0);
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
