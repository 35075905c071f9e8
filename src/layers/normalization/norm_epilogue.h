// What BatchNorm does besides in training, for layers behind it (Implementation::CanFuse).
#pragma once

#include <span>
#include <vector>

#include "graph/registry.h"
#include "math/bias_activation.h"

namespace crema {

// In this order, each at most once: a Scale with learned numbers of the channels, an Eltwise SUM
// with one more input, a ReLU.
struct NormEpilogue {
  explicit NormEpilogue(std::span<const Layer* const> fused);

  bool scale = false;
  bool bias = false;
  bool sum = false;
  FusedRelu relu;
  bool possible = true;
};

// Of a layer that fused some, or works on bfloat16. Thread safety: one thread.
struct FusedNormState final : ImplementationState {
  FusedNormState(std::span<const Layer* const> fused, int64_t channels)
      : alone(fused.empty()),
        epilogue(fused),
        center(static_cast<size_t>(channels)),
        factor(center.size()),
        shift(center.size()),
        offset(center.size()),
        slope(center.size()) {}

  const bool alone;
  NormEpilogue epilogue;
  std::vector<float> center, factor, shift, offset, slope;  // by channel
};

}  // namespace crema
