// Layers fused into a convolution (Implementation::CanFuse).
#pragma once

#include <span>

#include "layers/convolution/convolution.h"
#include "math/blocked_conv.h"

namespace crema {

// In this order, each optional: BatchNorm, BN, Scale or Bias (any number of them), one Eltwise SUM
// with one more input, ReLU or one other activation (ActivationOf). Refers to the layers. Thread
// safety: const.
class ConvEpilogue {
 public:
  ConvEpilogue(const Convolution& convolution, std::span<const Layer* const> fused);

  // Returns whether the fused layers are of this kind, with no other activation than ReLU.
  bool possible() const { return possible_ && !activation_.on(); }
  bool possible_with_activation() const { return possible_; }
  bool affine() const { return !affine_.empty(); }
  bool sum() const { return sum_; }
  FusedRelu relu() const { return relu_; }
  const FusedActivation& activation() const { return activation_; }
  size_t AffineBlobs() const;  // parameters of the layers that scale and shift
  // Computes `factor` and `shift` per channel from the consecutive parameters of the layers: y =
  // factor[c] * x + shift[c].
  void ReadAffine(std::span<const ConstTensorView> parameters, std::span<float> factor,
                  std::span<float> shift) const;

 private:
  bool Take(const Layer& layer);

  std::vector<const Layer*> affine_;
  bool sum_ = false;
  FusedRelu relu_;
  FusedActivation activation_;
  bool possible_ = true;
};

// Values of an epilogue in one session. Thread safety: one thread.
class ConvEpilogueNumbers {
 public:
  explicit ConvEpilogueNumbers(const OpDesc& query);

  const ConvEpilogue& kind() const { return epilogue_; }
  // Returns weights, bias, and the factors and shifts of fused layers. Reads them in each pass
  // unless weights are fixed.
  ConvParameters Read(const ForwardArgs& args);
  // Returns the addend of the sum, in the type of the output; null without one.
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
