// Internal to the implementations of Convolution.
#pragma once

#include <array>
#include <vector>

#include "crema.pb.h"
#include "graph/implementation.h"
#include "graph/registry.h"
#include "layers/convolution/conv_geometry.h"
#include "math/bias_activation.h"

namespace crema {

// Layer types that are a Convolution.
inline constexpr std::array kConvolutionTypes = {"Convolution", "Convolution3D",
                                                 "ConvolutionDepthwise", "DepthwiseConvolution"};

// Returns the ReLU of a Convolution or Deconvolution: the fusion pass's and IntelCaffe's; of both,
// their product.
inline FusedRelu ConvRelu(const Layer& layer) {
  const LayerParameter& param = layer.param();
  const ConvolutionParameter& own = param.convolution_param();
  const float fused = param.fused_relu_param().negative_slope();
  if (!own.relu()) return {param.has_fused_relu_param(), fused};
  return {true, own.negative_slope() * (param.has_fused_relu_param() ? fused : 1)};
}

class Convolution : public Layer {
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
  FusedRelu relu() const { return ConvRelu(*this); }
};

// Implementation "depthwise": f32, one input channel a group, at most two spatial axes.
ImplementationPtr DepthwiseConvolutionImplementation();

// A LayerType of the family, with all but name, docs and samples.
LayerType ConvolutionType();

// Implementations on blocked blobs; none when the build has no oneDNN.
std::vector<ImplementationPtr> OneDnnConvolutionImplementations();

// Implementation "packed": f32, at most two spatial axes, on processors with AVX2 or AVX-512.
ImplementationPtr PackedConvolutionImplementation();

}  // namespace crema
