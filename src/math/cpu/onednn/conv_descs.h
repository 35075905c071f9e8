// Internal: primitive descriptions of one convolution, for oneDNN 2 and 3.
#pragma once

#include "math/blocked_conv.h"
#include "math/cpu/onednn/primitives.h"

namespace crema::onednn {

using ForwardDesc = dnnl::convolution_forward::primitive_desc;
using ToInputDesc = dnnl::convolution_backward_data::primitive_desc;
using ToWeightDesc = dnnl::convolution_backward_weights::primitive_desc;

ForwardDesc MakeForwardDesc(const BlockedConvConfig& config);
// dx from dy.
ToInputDesc MakeToInputDesc(const BlockedConvConfig& config, const ForwardDesc& forward);
// The gradients of weights and bias.
ToWeightDesc MakeToWeightDesc(const BlockedConvConfig& config, const ForwardDesc& forward);

// With groups, if any, as an axis of their own.
dnnl::memory::dims WeightDims(const BlockedConvShape& shape);
// Weights as in a caffemodel, row-major.
dnnl::memory::desc PlainWeights(const BlockedConvShape& shape,
                                dnnl::memory::data_type type = dnnl::memory::data_type::f32);

// Returns how far the last window reaches beyond the input; negative if it ends before.
int64_t PadAfter(const BlockedConvShape::Axis& axis);

// The index of the addition among the post-ops of a convolution.
inline constexpr int kSumOp = 0;

}  // namespace crema::onednn
