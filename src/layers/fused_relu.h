// ReLU of a convolution or an inner product.
#pragma once

#include <algorithm>
#include <span>
#include <string>

#include "crema.pb.h"
#include "graph/implementation.h"
#include "math/bias_activation.h"

namespace crema {

// Returns the ReLU of a Convolution, Deconvolution or InnerProduct with these layers fused into it:
// IntelCaffe's fields, fused_relu_param, and fused layers of type ReLU. If several are set, the
// slopes are multiplied.
inline FusedRelu ReluOf(const Layer& layer, std::span<const Layer* const> fused) {
  const LayerParameter& param = layer.param();
  FusedRelu relu;
  const auto add = [&](float slope) { relu = {true, relu.on ? relu.slope * slope : slope}; };
  const auto add_own = [&](const auto& own) {
    if (own.relu()) add(own.negative_slope());
  };
  if (param.type() == "InnerProduct") {
    add_own(param.inner_product_param());
  } else {
    add_own(param.convolution_param());
  }
  if (param.has_fused_relu_param()) add(param.fused_relu_param().negative_slope());
  for (const Layer* next : fused) {
    if (next->param().type() == "ReLU") add(next->param().relu_param().negative_slope());
  }
  return relu;
}
inline FusedRelu ReluOf(const OpDesc& op) { return ReluOf(op.layer, op.fused); }

// Implementation::CanFuse of implementations that fuse ReLU only. With a slope of 0 or more the
// sign of the output is that of the input, which backward needs.
inline bool CanFuseRelu(const OpDesc& op) {
  return std::ranges::all_of(op.fused, [](const Layer* layer) {
    return layer->param().type() == "ReLU" && layer->param().relu_param().negative_slope() >= 0;
  });
}

// Implementation::Info of implementations that fuse ReLU: backward takes the mask from the output.
inline LayerInfo InfoWithRelu(const OpDesc& op) {
  LayerInfo info = op.info;
  info.backward_reads_output.assign(info.outputs.size(), ReluOf(op).on);
  return info;
}

// Returns implementation "native" of layers whose methods apply ReluOf(*this, args.fused).
inline ImplementationPtr NativeWithRelu() {
  return MakeSimpleImplementation({.name = std::string(kNativeImplementation)},
                                  {.can_fuse = CanFuseRelu, .info = InfoWithRelu});
}

}  // namespace crema
