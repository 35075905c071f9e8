// Shared by the implementations "cudnn" of Convolution and Deconvolution. Deconvolution is the pass
// of a convolution that computes the gradient of its input from that of its output.
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

// One layer as described to cuDNN. Immutable.
struct CudnnConvLayer {
  CudnnConvLayer(const OpDesc& query, bool is_transposed, bool channels_last = false);

  // Return the spec of a pass. `fused` includes the work after the products.
  CudnnConvSpec Forward(bool fused) const;
  CudnnConvSpec ToInput() const;
  CudnnConvSpec ToWeights() const;
  // Elements of one output of the layer, and its channels.
  int64_t OutputCount() const { return transposed ? spec.InCount() : spec.OutCount(); }
  int64_t OutputChannels() const { return transposed ? spec.in_channels : spec.out_channels; }
  // Groups by channel of an output in channels last. BiasSums() is the number of doubles that the
  // bias gradient needs.
  GroupLayout OutputGroups() const;
  int64_t BiasSums() const;
  // Returns true if cuDNN takes filters and their gradients in another layout.
  bool TransposesFilters() const { return spec.channels_last && !FilterTranspose(spec).IsCopy(); }
  // Return bytes without kScratchSlack, for transposed weights, the weight gradient, gradients
  // masked by a ReLU, the bias gradient, and the workspace of engines.
  size_t ForwardScratch() const;
  size_t BackwardScratch() const;

  bool transposed;
  bool possible = true;  // cuDNN can express the fusion
  bool own_bias = false;
  bool bias = false;  // its own, or that of folded layers
  std::vector<const Layer*> fused_layers;
  bool sum = false;
  FusedRelu relu;
  CudnnConvSpec spec;  // common to all passes
};

}  // namespace crema
#endif
