// What the implementations "cudnn" of Convolution and Deconvolution share. Deconvolution is the
// pass of a convolution to its input, from the output of that convolution on.
#pragma once

#if __has_include(<cudnn.h>)
#include <memory>
#include <vector>

#include "graph/implementation.h"
#include "graph/registry.h"
#include "layers/convolution/conv_cudnn_filter.h"
#include "layers/convolution/conv_geometry.h"
#include "math/bias_activation.h"
#include "math/cuda/cudnn_conv.h"
#include "math/group_stats.h"
#include "plan/tunes_engines.h"

namespace crema {

// Which passes cuDNN does with what they hand (conv_cudnn_norm_fusion.h); all where nothing is
// handed.
struct CudnnNormFusionPasses {
  bool forward = true;
  bool to_input = true;
  bool to_weights = true;
};

// One layer as cuDNN is asked about it. Const.
struct CudnnConvLayer {
  CudnnConvLayer(const OpDesc& query, bool is_transposed, bool channels_last = false);

  // With all that is behind the sums, or without. All three with what is handed, unless
  // `fuses_norm` is false.
  CudnnConvSpec Forward(bool fused, bool fuses_norm = true) const;
  CudnnConvSpec ToInput(bool fuses_norm = true) const;
  CudnnConvSpec ToWeights(bool fuses_norm = true) const;
  // Elements of one input and one output of the layer, and channels of the output.
  int64_t OutputCount() const { return transposed ? spec.InCount() : spec.OutCount(); }
  int64_t OutputChannels() const { return transposed ? spec.in_channels : spec.out_channels; }
  // Of the channels of an output in channels last; what their sums need, doubles.
  GroupLayout OutputGroups() const;
  GroupLayout InputGroups() const;
  int64_t BiasSums() const;
  // Filters and their gradients lie otherwise than cuDNN takes them.
  bool TransposesFilters() const { return spec.channels_last && !FilterTranspose(spec).IsCopy(); }
  // Bytes besides kScratchSlack, for turned weights, for the weight gradient, for gradients behind
  // a ReLU, for the gradient of the bias, for engines, and for what is handed without cuDNN.
  size_t ForwardScratch(const CudnnNormFusionPasses& does) const;
  size_t BackwardScratch(const CudnnNormFusionPasses& does) const;

  bool transposed;
  bool possible = true;  // what it fuses can be told to cuDNN
  bool own_bias = false;
  bool bias = false;  // its own, or that of layers whose factors its weights are multiplied by
  std::vector<const Layer*> fused_layers;
  bool sum = false;
  FusedRelu relu;
  NormFusion norm_fusion;
  CudnnConvSpec spec;  // of any pass
};

}  // namespace crema
#endif
