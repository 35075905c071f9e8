// What BatchNorm, BN and Scale behind a convolution do to its weights and its bias, on the GPU.
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
  // Of those of `fused` that scale channels (ChannelAffine), in order.
  ConvFold(bool has_bias, std::span<const Layer* const> fused);

  // At most some layers, each of a type whose numbers are known here.
  bool possible() const;
  bool any() const { return !layers_.empty(); }
  // Makes weight and bias from the learned blobs: those of the convolution, of the type that it
  // computes in, and behind them those of the layers, f32. Anew in each pass unless weights are
  // fixed.
  void Make(const ForwardArgs& args);
  const void* weight() const { return weight_.view().raw(); }
  const void* bias() const { return bias_.view().raw(); }
  // Of what it holds.
  static size_t Bytes(int64_t filter_count, int64_t channels, DType dtype);

 private:
  bool has_bias_;
  std::vector<const Layer*> layers_;
  Tensor factor_, weight_, bias_;
  bool made_ = false;  // of fixed weights
};

}  // namespace crema
#endif
