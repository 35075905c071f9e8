// Folds BatchNorm, BN and Scale after a convolution into its weights and bias, on the GPU.
#pragma once

#if __has_include(<cudnn.h>)
#include <cstddef>
#include <span>
#include <vector>

#include "core/tensor.h"
#include "graph/layer.h"

namespace crema {

// Thread safety: one thread at a time.
class ConvFold {
 public:
  // Takes the layers of `fused` that scale channels (ChannelAffine), in order.
  ConvFold(bool has_bias, std::span<const Layer* const> fused);

  // Returns true if the layers are few enough and all of a supported type.
  bool possible() const;
  bool any() const { return !layers_.empty(); }
  // Computes weights and bias from the parameters: first those of the convolution, in its compute
  // type, then those of the layers, in f32. Repeats this in each pass unless weights are fixed.
  void Make(const ForwardArgs& args);
  const void* weight() const { return weight_.view().raw(); }
  const void* bias() const { return bias_.view().raw(); }
  // Returns the bytes of the tensors that it holds.
  static size_t Bytes(int64_t filter_count, int64_t channels, DType dtype);

 private:
  bool has_bias_;
  std::vector<const Layer*> layers_;
  Tensor factor_, weight_, bias_;
  bool made_ = false;  // folded from fixed weights
};

}  // namespace crema
#endif
