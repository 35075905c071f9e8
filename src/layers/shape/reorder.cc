// Reorder: y = x, in another layout or stored type. The planner inserts it between layers that
// require different ones (plan/passes/memory_formats.cc); the chosen implementation determines the
// direction.
#include <cstring>

#include "core/bfloat16.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/int8_ranges.h"
#include "layers/shape/reorder_implementations.h"
#include "math/blocked_copy.h"
#include "math/scratch.h"

namespace crema {
namespace {

class Reorder final : public Layer {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    LayerInfo info;
    info.outputs = {context.inputs[0]};
    info.outputs[0].format = {};
    info.reach = Reach::kElement;
    info.moves_only = true;
    return info;
  }
  void Forward(const ForwardArgs& args) const override {
    std::memcpy(args.outputs[0].raw(), args.inputs[0].raw(), args.inputs[0].bytes());
  }
  void Backward(const BackwardArgs& args) const override {
    const TensorView& dx = args.input_grads[0];
    std::memcpy(dx.raw(), args.output_grads[0].raw(), dx.bytes());
  }
};

Support Supports(const OpDesc& query) {
  if (ChannelBlock() == 0) return Support::No("needs a processor with AVX2 or AVX-512");
  if (query.context.inputs[0].dtype != DType::kF32) return Support::No("is for f32");
  if (query.context.inputs[0].shape.axes() != 4) return Support::No("is for 4 axes");
  return {};
}

Support SupportsBF16(const OpDesc& query) {
  return HasBFloat16() ? Supports(query) : Support::No("needs a processor with AVX512-BF16");
}

template <typename T>
void ToBlocked(int threads, const Shape& shape, const void* x, void* y) {
  PlainToBlocked(threads, shape[0], shape[1], shape.count(2), static_cast<const float*>(x),
                 static_cast<T*>(y));
}

template <typename T>
void ToPlain(int threads, const Shape& shape, const void* x, void* y) {
  BlockedToPlain(threads, shape[0], shape[1], shape.count(2), static_cast<const T*>(x),
                 static_cast<float*>(y));
}

int64_t BlockedCount(const Shape& shape) {
  return StoredCount({shape, DType::kF32, {Layout::kBlocked}});
}

void Round(int threads, const Shape& shape, const void* x, void* y) {
  RoundAll(threads, BlockedCount(shape), static_cast<const float*>(x), static_cast<BFloat16*>(y));
}

void Widen(int threads, const Shape& shape, const void* x, void* y) {
  WidenAll(threads, BlockedCount(shape), static_cast<const BFloat16*>(x), static_cast<float*>(y));
}

using Copy = void (*)(int threads, const Shape& shape, const void* x, void* y);

template <Copy kThere, Copy kBack>
ImplementationPtr Reordering(const std::string& name, MemoryFormat from, MemoryFormat to) {
  const bool halves = from.type == DType::kBF16 || to.type == DType::kBF16;
  const auto forward = [](const Layer&, const ForwardArgs& args) {
    kThere(args.context.threads(), args.inputs[0].shape(), args.inputs[0].raw(),
           args.outputs[0].raw());
  };
  const auto backward = [](const Layer&, const BackwardArgs& args) {
    kBack(args.context.threads(), args.input_grads[0].shape(), args.output_grads[0].raw(),
          args.input_grads[0].raw());
  };
  return MakeSimpleImplementation(
      {.name = name, .input_format = from, .output_format = to},
      {.supports = halves ? SupportsBF16 : Supports, .forward = forward, .backward = backward});
}

// Converts between bytes and the other formats, in the range that the planner gave the layer.
// Between bytes and bfloat16 it goes through floats, in scratch.
using CopyOfBytes = void (*)(int threads, const Shape& x, const void* from, Int8Scale scale,
                             std::span<std::byte> scratch, void* to);

template <auto kCopy>
void ToInt8(int threads, const Shape& x, const void* from, Int8Scale scale, std::span<std::byte>,
            void* to) {
  kCopy(threads, x[0], x[1], x.count(2), static_cast<const float*>(from), scale, to);
}

template <auto kCopy>
void FromInt8(int threads, const Shape& x, const void* from, Int8Scale scale, std::span<std::byte>,
              void* to) {
  kCopy(threads, x[0], x[1], x.count(2), from, scale, static_cast<float*>(to));
}

float* Wide(const Shape& x, std::span<std::byte> scratch) {
  return ScratchCutter(scratch).Take<float>(BlockedCount(x));
}

void BF16ToInt8(int threads, const Shape& x, const void* from, Int8Scale scale,
                std::span<std::byte> scratch, void* to) {
  float* wide = Wide(x, scratch);
  Widen(threads, x, from, wide);
  BlockedToInt8(threads, x[0], x[1], x.count(2), wide, scale, to);
}

void Int8ToBF16(int threads, const Shape& x, const void* from, Int8Scale scale,
                std::span<std::byte> scratch, void* to) {
  float* wide = Wide(x, scratch);
  Int8ToBlocked(threads, x[0], x[1], x.count(2), from, scale, wide);
  Round(threads, x, wide, to);
}

void ChannelsLastBF16ToInt8(int threads, const Shape& x, const void* from, Int8Scale scale,
                            std::span<std::byte> scratch, void* to) {
  float* wide = Wide(x, scratch);
  WidenAll(threads, x.count(), static_cast<const BFloat16*>(from), wide);
  FloatsToInt8(threads, x.count(), wide, scale, to);
}

void Int8ToChannelsLastBF16(int threads, const Shape& x, const void* from, Int8Scale scale,
                            std::span<std::byte> scratch, void* to) {
  float* wide = Wide(x, scratch);
  Int8ToPlain(threads, 1, 1, x.count(), from, scale, wide);  // the order stays
  RoundAll(threads, x.count(), wide, static_cast<BFloat16*>(to));
}

Support SupportsInt8(const OpDesc& query) { return SupportsInt8Pixels(query, 1, 1); }

size_t WideScratch(const OpDesc& query) {
  return ScratchBytes<float>(BlockedCount(query.context.inputs[0].shape)) + kScratchSlack;
}

template <CopyOfBytes kCopy>
ImplementationPtr Reordering(const std::string& name, MemoryFormat from, MemoryFormat to) {
  const bool halves = from.type == DType::kBF16 || to.type == DType::kBF16;
  const auto forward = [](const Layer& layer, const ForwardArgs& args) {
    kCopy(args.context.threads(), args.inputs[0].shape(), args.inputs[0].raw(),
          InputScale(layer, 0), args.scratch, args.outputs[0].raw());
  };
  return MakeSimpleImplementation({.name = name, .input_format = from, .output_format = to},
                                  {.supports = SupportsInt8,
                                   .forward = forward,
                                   .forward_scratch = halves ? WideScratch : nullptr});
}

}  // namespace

void RegisterReorder(Registry& registry) {
  LayerType type;
  type.name = "Reorder";
  type.traits = {.computes_on_bytes = true};
  type.category = "shape";
  type.summary = "Converts a blob to another layout or stored type; plans insert it where needed.";
  type.formula = "y = x";
  type.input_docs = {"x: any shape"};
  type.output_docs = {"y: the shape of x"};
  type.origin = "Crema";
  type.make = [](const LayerParameter& param) -> std::unique_ptr<const Layer> {
    return std::make_unique<Reorder>(param);
  };
  constexpr MemoryFormat kPlain{}, kBlocked{Layout::kBlocked};
  constexpr MemoryFormat kHalves{Layout::kBlocked, DType::kBF16}, kInt8{Layout::kNHWC, DType::kU8};
  constexpr MemoryFormat kLastBF16{Layout::kNHWC, DType::kBF16};
  type.implementations = {
      Reordering<ToBlocked<float>, ToPlain<float>>("to blocked", kPlain, kBlocked),
      Reordering<ToPlain<float>, ToBlocked<float>>("to plain", kBlocked, kPlain),
      Reordering<ToBlocked<BFloat16>, ToPlain<BFloat16>>("to blocked bf16", kPlain, kHalves),
      Reordering<ToPlain<BFloat16>, ToBlocked<BFloat16>>("bf16 to plain", kHalves, kPlain),
      Reordering<Round, Widen>("to bf16", kBlocked, kHalves),
      Reordering<Widen, Round>("from bf16", kHalves, kBlocked),
      Reordering<ToInt8<PlainToInt8>>("to int8", kPlain, kInt8),
      Reordering<ToInt8<BlockedToInt8>>("blocked to int8", kBlocked, kInt8),
      Reordering<FromInt8<Int8ToPlain>>("int8 to plain", kInt8, kPlain),
      Reordering<FromInt8<Int8ToBlocked>>("int8 to blocked", kInt8, kBlocked),
      Reordering<BF16ToInt8>("bf16 to int8", kHalves, kInt8),
      Reordering<Int8ToBF16>("int8 to bf16", kInt8, kHalves),
      Reordering<ChannelsLastBF16ToInt8>("NHWC bf16 to int8", kLastBF16, kInt8),
      Reordering<Int8ToChannelsLastBF16>("int8 to NHWC bf16", kInt8, kLastBF16)};
#ifdef CREMA_HAVE_ONEDNN
  for (const ImplementationPtr& reorder : ChannelsLastReorders()) {
    type.implementations.push_back(reorder);
  }
#endif
  type.samples = {
      {.name = "image", .prototxt = "", .inputs = {{.shape = {2, 19, 3, 5}}}},
      {.name = "whole_blocks", .prototxt = "", .inputs = {{.shape = {1, 32, 4, 4}}}},
      {.name = "vector", .prototxt = "", .inputs = {{.shape = {7}}}},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
