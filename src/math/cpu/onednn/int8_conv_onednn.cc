#include <memory>
#include <optional>
#include <vector>

#include "core/tensor.h"
#include "math/cpu/onednn/pieces.h"
#include "math/int8_conv.h"
#include "math/int8_weights.h"

namespace crema {

using dnnl::memory;
using onednn::Args;
using onednn::Pieces;
using onednn::Runner;
using onednn::ScratchOf;

namespace {

using Desc = dnnl::convolution_forward::primitive_desc;
using Dims = memory::dims;
using Type = memory::data_type;

Type TypeOf(Int8Scale scale) { return scale.is_signed ? Type::s8 : Type::u8; }

Dims WeightDims(const BlockedConvShape& s) {
  if (s.groups == 1) return {s.out_channels, s.in_channels, s.h.kernel, s.w.kernel};
  return {s.groups, s.out_channels / s.groups, s.in_channels / s.groups, s.h.kernel, s.w.kernel};
}

int64_t Behind(const BlockedConvShape::Axis& a) {
  return (a.out - 1) * a.stride + (a.kernel - 1) * a.dilation + 1 - a.in - a.pad;
}

void AppendEltwise(dnnl::post_ops* ops, dnnl::algorithm algorithm, float alpha) {
#if DNNL_VERSION_MAJOR >= 3
  ops->append_eltwise(algorithm, alpha, 0);
#else
  ops->append_eltwise(1, algorithm, alpha, 0);
#endif
}

// Operations behind the sums, by their index. Scales are one of them, as those of a primitive mean
// something else in each version of oneDNN.
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

// What the sums are multiplied with becomes steps of `added` where there is one, else of y.
float UnitOf(const Int8ConvConfig& c) {
  if (c.sum) return c.added.step;
  return c.bytes_out ? c.y.step : 1;
}

dnnl::primitive_attr AttributesOf(const Int8ConvConfig& c) {
  dnnl::primitive_attr attr = onednn::Attributes();
  dnnl::post_ops ops;
  ops.append_binary(dnnl::algorithm::binary_mul, ChannelDesc(c));
  if (c.sum) ops.append_binary(dnnl::algorithm::binary_add, AddedDesc(c));
  if (c.relu.on) AppendEltwise(&ops, dnnl::algorithm::eltwise_relu, c.relu.slope);
  if (c.sum) AppendEltwise(&ops, dnnl::algorithm::eltwise_linear, c.added.step / c.y.step);
  attr.set_post_ops(ops);
  return attr;
}

Desc MakeDesc(const Int8ConvConfig& c) {
  const BlockedConvShape& s = c.shape;
  const memory::desc x({s.batch, s.in_channels, s.h.in, s.w.in}, TypeOf(c.x),
                       memory::format_tag::nhwc);
  const memory::desc weight(WeightDims(s), Type::s8, memory::format_tag::any);
  const memory::desc bias({s.out_channels}, Type::f32, memory::format_tag::x);
  const memory::desc y(OutputDims(c), c.bytes_out ? TypeOf(c.y) : Type::f32,
                       memory::format_tag::nhwc);
  const Dims strides{s.h.stride, s.w.stride}, dilates{s.h.dilation - 1, s.w.dilation - 1};
  const Dims before{s.h.pad, s.w.pad}, behind{Behind(s.h), Behind(s.w)};
  constexpr auto kKind = dnnl::prop_kind::forward_inference;
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  const dnnl::primitive_attr attr = AttributesOf(c);
#if DNNL_VERSION_MAJOR >= 3
  return {onednn::Cpu(), kKind,   kDirect, x,      weight, bias, y,
          strides,       dilates, before,  behind, attr};
#else
  const dnnl::convolution_forward::desc desc(kKind, kDirect, x, weight, bias, y, strides, dilates,
                                             before, behind);
  return {desc, attr, onednn::Cpu()};
#endif
}

memory::desc PlainWeights(const BlockedConvShape& s) {
  return {WeightDims(s), Type::s8,
          s.groups == 1 ? memory::format_tag::oihw : memory::format_tag::goihw};
}

size_t Lines(size_t bytes) { return (bytes + 63) / 64 * 64; }

// Weights, then what sums are multiplied with, then what is added to them before.
struct PackedInt8Conv final : PackedWeights {
  PackedInt8Conv(const Int8ConvConfig& config, const memory::desc& of, size_t bytes)
      : desc(of),
        input_step(config.x.step),
        output_unit(UnitOf(config)),
        affine(config.affine),
        values(Shape{static_cast<int64_t>(bytes / 64), 16}, DType::kF32) {}

  // Whether it is what that one would make of the same weights.
  bool Fits(const Int8ConvConfig& config, const memory::desc& of) const {
    return desc == of && input_step == config.x.step && output_unit == UnitOf(config) &&
           affine == config.affine;
  }

  const memory::desc desc;
  const float input_step, output_unit;
  const bool affine;
  Tensor values;
};

}  // namespace

struct Int8Conv::Parts {
  explicit Parts(const Int8ConvConfig& c) : config(c), desc(MakeDesc(c)) {}

  size_t WeightBytes() const { return Lines(desc.weights_desc().get_size()); }
  size_t ChannelBytes() const {
    return Lines(static_cast<size_t>(config.shape.out_channels) * sizeof(float));
  }
  size_t PackedBytes() const { return WeightBytes() + 2 * ChannelBytes(); }

  void MakePrimitive();
  void SetWeights(const ConvLearned& learned);
  void UsePacked();

  const Int8ConvConfig config;
  const Desc desc;
  std::optional<dnnl::stream> stream;
  Runner run;
  std::shared_ptr<PackedInt8Conv> packed;  // null until they are set or taken
  bool keeps = false;                      // they were packed to be kept
};

void Int8Conv::Parts::MakePrimitive() {
  stream.emplace(onednn::Cpu());
  const auto memory_of = onednn::WithoutData;
  Args args{
      {DNNL_ARG_SRC, memory_of(desc.src_desc())},
      {DNNL_ARG_WEIGHTS, memory_of(desc.weights_desc())},
      {DNNL_ARG_BIAS, memory_of(desc.bias_desc())},
      {DNNL_ARG_DST, memory_of(desc.dst_desc())},
      {DNNL_ARG_ATTR_MULTIPLE_POST_OP(kTimesOp) | DNNL_ARG_SRC_1, memory_of(ChannelDesc(config))},
      {DNNL_ARG_SCRATCHPAD, memory_of(desc.scratchpad_desc())}};
  if (config.sum) {
    args.emplace(DNNL_ARG_ATTR_MULTIPLE_POST_OP(kSumOp) | DNNL_ARG_SRC_1,
                 memory_of(AddedDesc(config)));
  }
  run = Runner(dnnl::convolution_forward(desc), std::move(args));
}

void Int8Conv::Parts::UsePacked() {
  const auto* base = static_cast<const std::byte*>(packed->values.view().raw());
  run.Set(DNNL_ARG_WEIGHTS, base);
  run.Set(DNNL_ARG_ATTR_MULTIPLE_POST_OP(kTimesOp) | DNNL_ARG_SRC_1, base + WeightBytes());
  run.Set(DNNL_ARG_BIAS, base + WeightBytes() + ChannelBytes());
}

void Int8Conv::Parts::SetWeights(const ConvLearned& learned) {
  const int64_t outputs = config.shape.out_channels;
  const int64_t depth = config.shape.WeightCount() / outputs;
  std::vector<int8_t> bytes(static_cast<size_t>(outputs * depth));
  std::vector<float> steps(static_cast<size_t>(outputs));
  QuantizeRows(config.threads, outputs, depth, learned.weight,
               config.affine ? learned.factor : nullptr, bytes.data(), steps.data());
  // What others read stays as it is.
  if (packed == nullptr || packed.use_count() > 1) {
    packed = std::make_shared<PackedInt8Conv>(config, desc.weights_desc(), PackedBytes());
  }
  auto* base = static_cast<std::byte*>(packed->values.view().raw());
  auto* times = reinterpret_cast<float*>(base + WeightBytes());
  auto* added = reinterpret_cast<float*>(base + WeightBytes() + ChannelBytes());
  for (int64_t o = 0; o < outputs; ++o) {
    float bias = config.bias ? learned.bias[o] : 0.0F;
    if (config.affine) bias = bias * learned.factor[o] + learned.shift[o];
    // Sums of a row of zeros are 0 whatever a step is.
    const float step = steps[static_cast<size_t>(o)];
    const float unit = config.x.step * (step == 0 ? 1.0F : step);
    added[o] = bias / unit;
    times[o] = unit / UnitOf(config);
  }
  memory from(PlainWeights(config.shape), onednn::Cpu(), bytes.data());
  memory to(desc.weights_desc(), onednn::Cpu(), base);
  dnnl::reorder(from, to).execute(*stream, from, to);
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
  if (parts_->stream) return;
  const onednn::ThreadCount threads(parts_->config.threads);
  onednn::Try("int8 convolution", [&] { parts_->MakePrimitive(); });
}

SharedPackedWeights Int8Conv::ExportPacked() const {
  return parts_->keeps ? parts_->packed : nullptr;
}

bool Int8Conv::ImportPacked(const SharedPackedWeights& shared) {
  const auto packed = std::dynamic_pointer_cast<const PackedInt8Conv>(shared);
  if (packed == nullptr || !packed->Fits(parts_->config, parts_->desc.weights_desc())) return false;
  parts_->packed = std::const_pointer_cast<PackedInt8Conv>(packed);  // kept as it is
  parts_->keeps = true;
  return true;
}

void Int8Conv::Forward(const void* x, const ConvLearned& learned, const void* added, void* y,
                       bool keep_weights, std::span<std::byte> scratch) {
  Prepare();
  Parts& p = *parts_;
  const onednn::ThreadCount threads(p.config.threads);
  onednn::Try("int8 convolution", [&] {
    if (!(keep_weights && p.keeps)) {
      p.keeps = false;
      p.SetWeights(learned);
    }
    p.keeps = keep_weights;
    p.UsePacked();
    p.run.Set(DNNL_ARG_SCRATCHPAD, scratch.data());
    p.run.Set(DNNL_ARG_SRC, x);
    p.run.Set(DNNL_ARG_DST, y);
    if (p.config.sum) p.run.Set(DNNL_ARG_ATTR_MULTIPLE_POST_OP(kSumOp) | DNNL_ARG_SRC_1, added);
    p.run.Run(*p.stream);
  });
}

}  // namespace crema
