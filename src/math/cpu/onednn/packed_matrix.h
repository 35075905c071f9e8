// Weights as oneDNN has packed them, to be shared.
#pragma once

#include "core/tensor.h"
#include "math/cpu/onednn/primitives.h"
#include "math/packed_weights.h"

namespace crema::onednn {

struct PackedMatrix final : PackedWeights {
  explicit PackedMatrix(const dnnl::memory::desc& of)
      : desc(of), values(Shape{static_cast<int64_t>((of.get_size() + 63) / 64), 16}, DType::kF32) {}

  const dnnl::memory::desc desc;
  Tensor values;
};

}  // namespace crema::onednn
