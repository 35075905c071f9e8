// Internal: the gradient of the weights of a convolution in bfloat16 by our own code, where it is
// expected to take less time than oneDNN's.
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
  // Null where oneDNN's, as described, is to be taken.
  static std::optional<OwnWeightGradient> Choose(const BlockedConvConfig& config,
                                                 const ToWeightDesc& desc);

  size_t Scratch() const { return scratch_; }
  // Adds to dweight and dbias, where they are wanted. `dy` is dense.
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
