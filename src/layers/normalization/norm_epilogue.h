// What BatchNorm does besides in training, for layers behind it (Kernel::absorbs).
#pragma once

#include <span>
#include <vector>

#include "graph/registry.h"
#include "math/bias_activation.h"

namespace crema {

// In this order, each at most once: a Scale with learned numbers of the channels, an Eltwise SUM
// with one more input, a ReLU.
struct NormEpilogue {
  explicit NormEpilogue(std::span<const Layer* const> absorbed);

  bool scale = false;
  bool bias = false;
  bool sum = false;
  FusedRelu relu;
  bool possible = true;
};

// Of a layer that absorbed some, or works on bfloat16. Thread safety: one thread.
struct FusedNormState final : KernelState {
  FusedNormState(std::span<const Layer* const> absorbed, int64_t channels)
      : alone(absorbed.empty()),
        epilogue(absorbed),
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
