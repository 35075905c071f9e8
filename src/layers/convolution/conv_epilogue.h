// What a convolution does besides, for layers behind it (Implementation::CanFuse).
#pragma once

#include <span>

#include "layers/convolution/convolution.h"
#include "math/blocked_conv.h"

namespace crema {

// In this order, each at most once: BatchNorm, BN or Scale (any number of them), Eltwise SUM with
// one more input, ReLU. Refers to the layers. Thread safety: const.
class ConvEpilogue {
 public:
  ConvEpilogue(const Convolution& convolution, std::span<const Layer* const> fused);

  bool possible() const { return possible_; }
  bool affine() const { return !affine_.empty(); }
  bool sum() const { return sum_; }
  FusedRelu relu() const { return relu_; }
  size_t AffineBlobs() const;  // learned blobs of the layers that scale and shift
  // From the learned blobs of the layers, one behind the other: y = factor[c] * x + shift[c].
  void ReadAffine(std::span<const ConstTensorView> learned, std::span<float> factor,
                  std::span<float> shift) const;

 private:
  bool Take(const Layer& layer);

  std::vector<const Layer*> affine_;
  bool sum_ = false;
  FusedRelu relu_;
  bool possible_ = true;
};

// The numbers of an epilogue in one session. Thread safety: one thread.
class ConvEpilogueNumbers {
 public:
  explicit ConvEpilogueNumbers(const OpDesc& query);

  const ConvEpilogue& kind() const { return epilogue_; }
  // Weights, bias, and what fused layers do to them, read anew unless weights are fixed.
  ConvLearned Read(const ForwardArgs& args);
  // What is added, of the type of the output; null: nothing.
  const void* AddedOf(const ForwardArgs& args) const {
    return epilogue_.sum() ? args.inputs.back().raw() : nullptr;
  }

 private:
  ConvEpilogue epilogue_;
  bool has_bias_;
  std::vector<float> factor_;
  std::vector<float> shift_;
  bool read_ = false;
};

}  // namespace crema
