// Internal to the rows of Convolution's kernel list.
#pragma once

#include "graph/registry.h"
#include "layers/convolution/conv_geometry.h"
#include "math/bias_activation.h"

namespace crema {

class Convolution final : public Layer {
 public:
  explicit Convolution(const LayerParameter& param);

  LayerInfo Infer(const InferContext& context) const override;
  void Forward(const ForwardArgs& args) const override;
  void Backward(const BackwardArgs& args) const override;
  size_t ForwardScratch(const InferContext& context, const LayerInfo& info,
                        int threads) const override;
  size_t BackwardScratch(const InferContext& context, const LayerInfo& info,
                         int threads) const override;

  bool has_bias() const { return param().convolution_param().bias_term(); }
  FusedRelu relu() const {
    return {param().has_fused_relu_param(), param().fused_relu_param().negative_slope()};
  }
};

// Row "packed": f32, at most two spatial axes, on processors with AVX2 or AVX-512.
Kernel PackedConvolutionKernel();

}  // namespace crema
