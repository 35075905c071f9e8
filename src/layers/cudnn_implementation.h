// Helpers for cuDNN implementations.
#pragma once

#include "core/strings.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/cudnn.h"

namespace crema {

// Requires f32 or f16: cuDNN does not document bf16 support of these operations.
inline Support SupportsCudnn(const OpDesc& query) {
  const std::string why_not = WhyNoCudnn();
  if (!why_not.empty()) return Support::No(StrCat("cuDNN cannot be used: ", why_not));
  const DType dtype = query.context.dtype;
  if (dtype != DType::kF32 && dtype != DType::kF16) return Support::No("is for f32 and f16");
  return {};
}

// Makes an implementation named "cudnn"; it is preferred to the native one.
template <typename State>
ImplementationPtr MakeCudnnImplementation(Support (*supports)(const OpDesc&),
                                          void (*forward)(const Layer&, const ForwardArgs&),
                                          void (*backward)(const Layer&, const BackwardArgs&),
                                          LayerInfo (*info)(const OpDesc&) = nullptr) {
  return MakeCudaImplementation<StatefulImplementation<State>>(
      forward, backward, {.supports = supports, .info = info}, "cudnn");
}

// Alpha and beta of cuDNN calls on f32 and f16: overwrite the output with the result.
inline constexpr float kCudnnOne = 1, kCudnnZero = 0;

}  // namespace crema
