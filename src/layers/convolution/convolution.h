// Internal to the implementations of Convolution.
#pragma once

#include <array>
#include <vector>

#include "crema.pb.h"
#include "graph/implementation.h"
#include "graph/registry.h"
#include "layers/convolution/conv_geometry.h"
#include "layers/fused_relu.h"

namespace crema {

// Names of the layer types that are convolutions.
inline constexpr std::array kConvolutionTypes = {"Convolution", "Convolution3D",
                                                 "ConvolutionDepthwise", "DepthwiseConvolution"};

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
};

// Returns implementation "depthwise": f32, one input channel per group, at most two spatial axes.
ImplementationPtr DepthwiseConvolutionImplementation();

// Returns a LayerType of the family, complete except for name, summary, formula and samples.
LayerType ConvolutionType();

// Returns the implementations on blocked blobs. Only in builds with oneDNN.
std::vector<ImplementationPtr> OneDnnConvolutionImplementations();

// Returns implementation "inner product": f32, one group, few output positions.
ImplementationPtr ProductConvolutionImplementation();

// Returns implementation "packed": f32, at most two spatial axes, on processors with AVX2 or
// AVX-512.
ImplementationPtr PackedConvolutionImplementation();

}  // namespace crema
