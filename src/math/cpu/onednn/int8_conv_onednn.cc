#include <memory>
#include <vector>

#include "math/cpu/onednn/conv_descs.h"
#include "math/cpu/onednn/pieces.h"
#include "math/int8_conv.h"
#include "math/int8_weights.h"
#include "math/packed_weight_buffer.h"

namespace crema {

using dnnl::memory;
using onednn::Pieces;
using onednn::Runner;
using onednn::ScratchOf;

namespace {

using Desc = dnnl::convolution_forward::primitive_desc;
using Dims = memory::dims;
using Type = memory::data_type;

Type TypeOf(Int8Scale scale) { return scale.is_signed ? Type::s8 : Type::u8; }

// Post-ops after the sums, by their index. Scales are one of them, as the scales of a primitive
// mean something else in each version of oneDNN.
constexpr int kTimesOp = 0;
constexpr int kSumOp = 1;

memory::desc ChannelDesc(const Int8ConvConfig& c) {
  return {{1, c.shape.out_channels, 1, 1}, Type::f32, memory::format_tag::nhwc};
}

Dims OutputDims(const Int8ConvConfig& c) {
  return {c.shape.batch, c.shape.out_channels, c.shape.h.out, c.shape.w.out};
}

memory::desc AddedDesc(const Int8ConvConfig& c) {
  return {OutputDims(c), TypeOf(c.added), memory::format_tag::nhwc};
}

// Returns the step that the sums are scaled to: that of `added` if there is one, else of y.
float UnitOf(const Int8ConvConfig& c) {
  if (c.sum) return c.added.step;
  return c.bytes_out ? c.y.step : 1;
}

dnnl::primitive_attr AttributesOf(const Int8ConvConfig& c) {
  dnnl::primitive_attr attr = onednn::Attributes();
  dnnl::post_ops ops;
  ops.append_binary(dnnl::algorithm::binary_mul, ChannelDesc(c));
  if (c.sum) ops.append_binary(dnnl::algorithm::binary_add, AddedDesc(c));
  if (c.relu.on) onednn::AppendEltwise(&ops, dnnl::algorithm::eltwise_relu, c.relu.slope);
  if (c.sum) onednn::AppendEltwise(&ops, dnnl::algorithm::eltwise_linear, c.added.step / c.y.step);
  attr.set_post_ops(ops);
  return attr;
}

Desc MakeDesc(const Int8ConvConfig& c) {
  const BlockedConvShape& s = c.shape;
  const memory::desc x({s.batch, s.in_channels, s.h.in, s.w.in}, TypeOf(c.x),
                       memory::format_tag::nhwc);
  const memory::desc weight(onednn::WeightDims(s), Type::s8, memory::format_tag::any);
  const memory::desc bias({s.out_channels}, Type::f32, memory::format_tag::x);
  const memory::desc y(OutputDims(c), c.bytes_out ? TypeOf(c.y) : Type::f32,
                       memory::format_tag::nhwc);
  const Dims strides{s.h.stride, s.w.stride}, dilates{s.h.dilation - 1, s.w.dilation - 1};
  const Dims before{s.h.pad, s.w.pad}, after{onednn::PadAfter(s.h), onednn::PadAfter(s.w)};
  constexpr auto kKind = dnnl::prop_kind::forward_inference;
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  const dnnl::primitive_attr attr = AttributesOf(c);
#if DNNL_VERSION_MAJOR >= 3
  return {onednn::Cpu(), kKind, kDirect, x, weight, bias, y, strides, dilates, before, after, attr};
#else
  const dnnl::convolution_forward::desc desc(kKind, kDirect, x, weight, bias, y, strides, dilates,
                                             before, after);
  return {desc, attr, onednn::Cpu()};
#endif
}

size_t Lines(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

struct Int8Conv::Parts {
  // Determines the packed weights, besides the parameters.
  struct Key {
    memory::desc desc;
    float input_step, output_unit;
    bool affine;
    bool operator==(const Key&) const = default;
  };

  explicit Parts(const Int8ConvConfig& c)
      : config(c),
        desc(MakeDesc(c)),
        packed({desc.weights_desc(), c.x.step, UnitOf(c), c.affine}, PackedBytes()) {}

  size_t WeightBytes() const { return Lines(desc.weights_desc().get_size()); }
  size_t ChannelBytes() const {
    return Lines(static_cast<size_t>(config.shape.out_channels) * sizeof(float));
  }
  // Weights, then the factors of the sums, then the addends before them.
  size_t PackedBytes() const { return WeightBytes() + 2 * ChannelBytes(); }

  void Pack(const ConvParameters& parameters, std::byte* to);
  void UsePacked(const std::byte* packed);

  const Int8ConvConfig config;
  const Desc desc;
  Runner run, pack;
  PackedWeightBuffer<Key> packed;
};

void Int8Conv::Parts::UsePacked(const std::byte* base) {
  run.Set(DNNL_ARG_WEIGHTS, base);
  run.Set(onednn::BinaryArg(kTimesOp), base + WeightBytes());
  run.Set(DNNL_ARG_BIAS, base + WeightBytes() + ChannelBytes());
}

void Int8Conv::Parts::Pack(const ConvParameters& parameters, std::byte* base) {
  const int64_t outputs = config.shape.out_channels;
  const int64_t depth = config.shape.WeightCount() / outputs;
  std::vector<int8_t> bytes(static_cast<size_t>(outputs * depth));
  std::vector<float> steps(static_cast<size_t>(outputs));
  QuantizeRows(config.threads, outputs, depth, parameters.weight,
               config.affine ? parameters.factor : nullptr, bytes.data(), steps.data());
  // Without VNNI oneDNN halves the weights for a signed input, which would round them again.
  if (config.x.is_signed && LargestInt8Weight() < 64) {
    for (int8_t& weight : bytes) weight = static_cast<int8_t>(2 * weight);
    for (float& step : steps) step /= 2;
  }
  auto* times = reinterpret_cast<float*>(base + WeightBytes());
  auto* added = reinterpret_cast<float*>(base + WeightBytes() + ChannelBytes());
  for (int64_t o = 0; o < outputs; ++o) {
    float bias = config.bias ? parameters.bias[o] : 0.0F;
    if (config.affine) bias = bias * parameters.factor[o] + parameters.shift[o];
    // Sums of a row of zeros are 0 whatever a step is.
    const float step = steps[static_cast<size_t>(o)];
    const float unit = config.x.step * (step == 0 ? 1.0F : step);
    added[o] = bias / unit;
    times[o] = unit / UnitOf(config);
  }
  onednn::RunReorder(&pack, bytes.data(), base);
}

Int8Conv::Int8Conv(const Int8ConvConfig& config) {
  const onednn::ThreadCount threads(config.threads);
  parts_ = onednn::Try("int8 convolution", [&] { return std::make_unique<Parts>(config); });
}

Int8Conv::~Int8Conv() = default;

bool Int8Conv::IsReference() const { return onednn::IsReference(parts_->desc); }

size_t Int8Conv::Scratch() const {
  Pieces pieces(nullptr);
  pieces.Take(ScratchOf(parts_->desc));
  return pieces.used();
}

size_t Int8Conv::PackedBytes() const { return parts_->PackedBytes(); }

void Int8Conv::Prepare() {
  Parts& p = *parts_;
  if (p.run) return;
  const onednn::ThreadCount threads(p.config.threads);
  onednn::Try("int8 convolution", [&] {
    p.run = onednn::MakeRunner<dnnl::convolution_forward>(p.desc);
    p.pack = onednn::MakeReorder(onednn::PlainWeights(p.config.shape, Type::s8),
                                 p.desc.weights_desc(), false);
  });
}

SharedPackedWeights Int8Conv::ExportPacked() const { return parts_->packed.Export(); }

bool Int8Conv::ImportPacked(const SharedPackedWeights& shared) {
  return parts_->packed.Import(shared);
}

void Int8Conv::Forward(const void* x, const ConvParameters& parameters, const void* added, void* y,
                       bool keep_weights, std::span<std::byte> scratch) {
  Prepare();
  Parts& p = *parts_;
  const onednn::ThreadCount threads(p.config.threads);
  onednn::Try("int8 convolution", [&] {
    p.UsePacked(p.packed.Get(keep_weights, [&](std::byte* to) { p.Pack(parameters, to); }));
    p.run.Set(DNNL_ARG_SCRATCHPAD, scratch.data());
    p.run.Set(DNNL_ARG_SRC, x);
    p.run.Set(DNNL_ARG_DST, y);
    p.run.Set(onednn::BinaryArg(kSumOp), added);
    p.run.Run();
  });
}

}  // namespace crema
