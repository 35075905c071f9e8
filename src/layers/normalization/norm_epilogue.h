// Layers fused into BatchNorm (Implementation::CanFuse).
#pragma once

#include <span>
#include <vector>

#include "graph/registry.h"
#include "math/bias_activation.h"

namespace crema {

// In this order, each optional: a Scale with parameters per channel, an Eltwise SUM with one more
// input, a ReLU.
struct NormEpilogue {
  explicit NormEpilogue(std::span<const Layer* const> fused);

  bool scale = false;
  bool bias = false;
  bool sum = false;
  FusedRelu relu;
  bool possible = true;
};

// State of a layer that is computed by channels, with or without fused layers. Thread safety: one
// thread.
struct FusedNormState final : ImplementationState {
  FusedNormState(std::span<const Layer* const> fused, int64_t channels, bool last)
      : alone(fused.empty()),
        channels_last(last),
        epilogue(fused),
        center(static_cast<size_t>(channels)),
        factor(center.size()),
        shift(center.size()),
        offset(center.size()),
        slope(center.size()) {}

  const bool alone;
  const bool channels_last;  // else blocked
  NormEpilogue epilogue;
  std::vector<float> center, factor, shift, offset, slope;  // per channel
};

}  // namespace crema
