#include "math/cpu/onednn/activations.h"
#include "math/cpu/onednn/conv_descs.h"

namespace crema::onednn {
namespace {

using dnnl::memory;
using Dims = memory::dims;
constexpr auto kF32 = memory::data_type::f32;
constexpr auto kDirect = dnnl::algorithm::convolution_direct;

memory::format_tag TagOf(const BlockedConvConfig& c) {
  return c.channels_last ? memory::format_tag::nhwc : BlockedTag();
}

// The blobs and dimensions of one convolution.
struct Geometry {
  explicit Geometry(const BlockedConvConfig& c)
      : type(c.bfloat16 ? memory::data_type::bf16 : kF32),
        x({c.shape.batch, c.shape.in_channels, c.shape.h.in, c.shape.w.in}, type,
          c.plain_input ? memory::format_tag::nchw : TagOf(c)),
        weight(WeightDims(c.shape), type, memory::format_tag::any),
        weight_gradient(WeightDims(c.shape), kF32, memory::format_tag::any),
        y({c.shape.batch, c.shape.out_channels, c.shape.h.out, c.shape.w.out}, type, TagOf(c)),
        strides{c.shape.h.stride, c.shape.w.stride},
        dilates{c.shape.h.dilation - 1, c.shape.w.dilation - 1},
        before{c.shape.h.pad, c.shape.w.pad},
        after{PadAfter(c.shape.h), PadAfter(c.shape.w)} {
    // With factors there always is a bias, computed at run time.
    if (c.bias || c.affine)
      bias = memory::desc({c.shape.out_channels}, kF32, memory::format_tag::x);
  }

  memory::data_type type;
  memory::desc x, weight, weight_gradient, bias, y;
  Dims strides, dilates, before, after;
};

dnnl::primitive_attr ForwardAttributes(const BlockedConvConfig& c, const memory::desc& y) {
  dnnl::primitive_attr attr = Attributes();
  dnnl::post_ops ops;
  if (c.sum) ops.append_binary(dnnl::algorithm::binary_add, y);
  if (c.relu.on) AppendEltwise(&ops, dnnl::algorithm::eltwise_relu, c.relu.slope);
  AppendActivation(&ops, c.activation);
  attr.set_post_ops(ops);
  return attr;
}

}  // namespace

ForwardDesc MakeForwardDesc(const BlockedConvConfig& c) {
  const Geometry g(c);
  const auto kind =
      c.backward ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  const dnnl::primitive_attr attr = ForwardAttributes(c, g.y);
#if DNNL_VERSION_MAJOR >= 3
  return {Cpu(), kind,      kDirect,   g.x,      g.weight, g.bias,
          g.y,   g.strides, g.dilates, g.before, g.after,  attr};
#else
  const dnnl::convolution_forward::desc desc(kind, kDirect, g.x, g.weight, g.bias, g.y, g.strides,
                                             g.dilates, g.before, g.after);
  return {desc, attr, Cpu()};
#endif
}

ToInputDesc MakeToInputDesc(const BlockedConvConfig& c, const ForwardDesc& forward) {
  const Geometry g(c);
#if DNNL_VERSION_MAJOR >= 3
  return {Cpu(),     kDirect,  g.x,     g.weight, g.y,         g.strides,
          g.dilates, g.before, g.after, forward,  Attributes()};
#else
  const dnnl::convolution_backward_data::desc desc(kDirect, g.x, g.weight, g.y, g.strides,
                                                   g.dilates, g.before, g.after);
  return {desc, Attributes(), Cpu(), forward};
#endif
}

ToWeightDesc MakeToWeightDesc(const BlockedConvConfig& c, const ForwardDesc& forward) {
  const Geometry g(c);
#if DNNL_VERSION_MAJOR >= 3
  return {Cpu(),     kDirect,   g.x,      g.weight_gradient, g.bias,  g.y,
          g.strides, g.dilates, g.before, g.after,           forward, Attributes()};
#else
  const dnnl::convolution_backward_weights::desc desc(kDirect, g.x, g.weight_gradient, g.bias, g.y,
                                                      g.strides, g.dilates, g.before, g.after);
  return {desc, Attributes(), Cpu(), forward};
#endif
}

Dims WeightDims(const BlockedConvShape& s) {
  if (s.groups == 1) return {s.out_channels, s.in_channels, s.h.kernel, s.w.kernel};
  return {s.groups, s.out_channels / s.groups, s.in_channels / s.groups, s.h.kernel, s.w.kernel};
}

int64_t PadAfter(const BlockedConvShape::Axis& a) {
  return (a.out - 1) * a.stride + (a.kernel - 1) * a.dilation + 1 - a.in - a.pad;
}

memory::desc PlainWeights(const BlockedConvShape& shape, memory::data_type type) {
  return {WeightDims(shape), type,
          shape.groups == 1 ? memory::format_tag::oihw : memory::format_tag::goihw};
}

}  // namespace crema::onednn
