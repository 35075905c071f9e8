// Internal: the weight gradient of a convolution in bfloat16 by Crema's own code, if it is expected
// to be faster than oneDNN's.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "math/bf16_weight_gradient.h"
#include "math/cpu/onednn/conv_descs.h"

namespace crema::onednn {

// Thread safety: any, with scratch of its own.
class OwnWeightGradient {
 public:
  // Returns null if oneDNN's is to be used.
  static std::optional<OwnWeightGradient> Choose(const BlockedConvConfig& config,
                                                 const ToWeightDesc& desc);

  size_t Scratch() const { return scratch_; }
  // Adds to dweight and dbias, unless they are null. `dy` is dense.
  void Run(const BlockedConvGrads& grads, const void* dy, std::span<std::byte> scratch) const;

 private:
  OwnWeightGradient(const BlockedConvConfig& config, BF16Unit unit)
      : shape_(config.shape),
        threads_(config.threads),
        unit_(unit),
        scratch_(BF16WeightGradientScratch(config.shape, config.threads)) {}

  BlockedConvShape shape_;
  int threads_;
  BF16Unit unit_;
  size_t scratch_;
};

}  // namespace crema::onednn
