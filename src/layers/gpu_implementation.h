// Helpers for GPU implementations.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "graph/implementation.h"
#include "graph/registry.h"
#include "layers/elements.h"
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
  if (added == 0) {
    Fail(ErrorCode::kInternal,
         StrCat("layer type '", type, "' has traits of GPU code, but no implementation for GPUs"));
  }
}

// Returns views[index], or an empty view if `views` is shorter.
template <typename View>
View At(std::span<const View> views, size_t index) {
  return index < views.size() ? views[index] : View();
}

// Arguments of a pass over blobs of type T, with their elements: x are inputs, y outputs, w
// parameters, and dx, dy and dw their gradients. Elements of an empty or a missing view are
// null.
template <typename T>
struct GpuForward : ForwardArgs {
  explicit GpuForward(const ForwardArgs& args)
      : ForwardArgs(args), queue(BoundQueue(args.context)) {}
  const T* x(size_t i = 0) const { return Elements<T>(At(inputs, i)); }
  T* y(size_t i = 0) const { return Elements<T>(At(outputs, i)); }
  const T* w(size_t i = 0) const { return Elements<T>(At(parameters, i)); }
  template <typename Element>
  Element* Saved(size_t i = 0) const {
    return Elements<Element>(At(saved, i));
  }

  CudaQueue& queue;
};

template <typename T>
struct GpuBackward : BackwardArgs {
  explicit GpuBackward(const BackwardArgs& args)
      : BackwardArgs(args), queue(BoundQueue(args.context)) {}
  const T* x(size_t i = 0) const { return Elements<T>(At(inputs, i)); }
  const T* y(size_t i = 0) const { return Elements<T>(At(outputs, i)); }
  const T* w(size_t i = 0) const { return Elements<T>(At(parameters, i)); }
  const T* dy(size_t i = 0) const { return Elements<T>(At(output_grads, i)); }
  T* dx(size_t i = 0) const { return Elements<T>(At(input_grads, i)); }
  T* dw(size_t i = 0) const { return Elements<T>(At(parameter_grads, i)); }
  template <typename Element>
  const Element* Saved(size_t i = 0) const {
    return Elements<Element>(At(saved, i));
  }

  CudaQueue& queue;
};

// The functions of a Body, which has, for each T of DispatchCudaFloat,
//   template <typename T>
//   static void Forward(const Layer&, const GpuForward<T>&);
// It may have Backward(const Layer&, const GpuBackward<T>&), and Supports, ForwardScratch and
// BackwardScratch, or Scratch for both passes, as in ImplementationFunctions.
template <typename Body>
struct GpuFunctions {
  static void Forward(const Layer& layer, const ForwardArgs& args) {
    DispatchCudaFloat(args.outputs[0].dtype(),
                      [&]<typename T>(T) { Body::Forward(layer, GpuForward<T>(args)); });
  }
  static void Backward(const Layer& layer, const BackwardArgs& args) {
    // Outputs without a gradient have a view without a type.
    const auto wanted = std::ranges::find_if_not(args.output_grads, &ConstTensorView::empty);
    const bool found = wanted != args.output_grads.end();
    DispatchCudaFloat(found ? wanted->dtype() : args.input_grads[0].dtype(),
                      [&]<typename T>(T) { Body::Backward(layer, GpuBackward<T>(args)); });
  }
  static ImplementationFunctions All() {
    ImplementationFunctions all{.supports = SupportsCudaFloats, .forward = Forward};
    if constexpr (requires(const Layer& l, const GpuBackward<float>& a) { Body::Backward(l, a); }) {
      all.backward = Backward;
    }
    if constexpr (requires { &Body::Supports; }) all.supports = Body::Supports;
    if constexpr (requires { &Body::Scratch; }) {
      all.forward_scratch = all.backward_scratch = Body::Scratch;
    }
    if constexpr (requires { &Body::ForwardScratch; }) all.forward_scratch = Body::ForwardScratch;
    if constexpr (requires { &Body::BackwardScratch; }) {
      all.backward_scratch = Body::BackwardScratch;
    }
    return all;
  }
};

// Makes the native GPU implementation with the functions of Body.
template <typename Body>
ImplementationPtr CudaImplementation(std::string name = "cuda") {
  return MakeSimpleImplementation({.name = std::move(name), .device = DeviceType::kCuda},
                                  GpuFunctions<Body>::All());
}

}  // namespace crema
