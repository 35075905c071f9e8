// Reorder: y = x, in another memory format. The planner puts it where layers meet that want
// different ones (plan/passes/memory_formats.cc); the row that is chosen says which way it goes.
#include <cstring>

#include "core/bfloat16.h"
#include "core/strings.h"
#include "graph/registry.h"
#include "layers/int8_ranges.h"
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
    info.outputs[0].format = MemoryFormat::kPlain;
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

using Copy = void (*)(int threads, const Shape& shape, const void* x, void* y);

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
  return StoredCount({shape, DType::kF32, MemoryFormat::kBlocked});
}

void Round(int threads, const Shape& shape, const void* x, void* y) {
  RoundAll(threads, BlockedCount(shape), static_cast<const float*>(x), static_cast<BFloat16*>(y));
}

void Widen(int threads, const Shape& shape, const void* x, void* y) {
  WidenAll(threads, BlockedCount(shape), static_cast<const BFloat16*>(x), static_cast<float*>(y));
}

Implementation MakeImplementation(std::string name, MemoryFormat from, MemoryFormat to, Copy there,
                                  Copy back) {
  Implementation implementation;
  implementation.name = std::move(name);
  const bool halves = from == MemoryFormat::kBlockedBF16 || to == MemoryFormat::kBlockedBF16;
  implementation.supports = halves ? SupportsBF16 : Supports;
  implementation.input_format = from;
  implementation.output_format = to;
  implementation.forward = [there](const Layer&, const ForwardArgs& args) {
    there(args.context.threads(), args.inputs[0].shape(), args.inputs[0].raw(),
          args.outputs[0].raw());
  };
  implementation.backward = [back](const Layer&, const BackwardArgs& args) {
    back(args.context.threads(), args.input_grads[0].shape(), args.output_grads[0].raw(),
         args.input_grads[0].raw());
  };
  return implementation;
}

// Bytes from and to the other formats, in the range that the planner gave the layer.
using FromFloats = void (*)(int, int64_t, int64_t, int64_t, const float*, Int8Scale, void*);
using ToFloats = void (*)(int, int64_t, int64_t, int64_t, const void*, Int8Scale, float*);

Support SupportsInt8(const OpDesc& query) { return SupportsInt8Pixels(query, 1, 1); }

Implementation MakeInt8Implementation(std::string name, MemoryFormat from, MemoryFormat to) {
  Implementation implementation;
  implementation.name = std::move(name);
  implementation.supports = SupportsInt8;
  implementation.input_format = from;
  implementation.output_format = to;
  return implementation;
}

Implementation ToInt8(std::string name, MemoryFormat from, FromFloats copy) {
  Implementation implementation =
      MakeInt8Implementation(std::move(name), from, MemoryFormat::kInt8);
  implementation.forward = [copy](const Layer& layer, const ForwardArgs& args) {
    const Shape& x = args.inputs[0].shape();
    copy(args.context.threads(), x[0], x[1], x.count(2), args.inputs[0].data<float>(),
         InputScale(layer, 0), args.outputs[0].raw());
  };
  return implementation;
}

Implementation FromInt8(std::string name, MemoryFormat to, ToFloats copy) {
  Implementation implementation = MakeInt8Implementation(std::move(name), MemoryFormat::kInt8, to);
  implementation.forward = [copy](const Layer& layer, const ForwardArgs& args) {
    const Shape& x = args.inputs[0].shape();
    copy(args.context.threads(), x[0], x[1], x.count(2), args.inputs[0].raw(), InputScale(layer, 0),
         args.outputs[0].data<float>());
  };
  return implementation;
}

// Between the two kinds of small numbers, by floats.
size_t WideScratch(const OpDesc& query) {
  return ScratchBytes<float>(BlockedCount(query.context.inputs[0].shape)) + kScratchSlack;
}

Implementation BF16ToInt8() {
  Implementation implementation =
      MakeInt8Implementation("bf16 to int8", MemoryFormat::kBlockedBF16, MemoryFormat::kInt8);
  implementation.forward_scratch = WideScratch;
  implementation.forward = [](const Layer& layer, const ForwardArgs& args) {
    const Shape& x = args.inputs[0].shape();
    auto* wide = ScratchCutter(args.scratch).Take<float>(BlockedCount(x));
    Widen(args.context.threads(), x, args.inputs[0].raw(), wide);
    BlockedToInt8(args.context.threads(), x[0], x[1], x.count(2), wide, InputScale(layer, 0),
                  args.outputs[0].raw());
  };
  return implementation;
}

Implementation Int8ToBF16() {
  Implementation implementation =
      MakeInt8Implementation("int8 to bf16", MemoryFormat::kInt8, MemoryFormat::kBlockedBF16);
  implementation.forward_scratch = WideScratch;
  implementation.forward = [](const Layer& layer, const ForwardArgs& args) {
    const Shape& x = args.inputs[0].shape();
    auto* wide = ScratchCutter(args.scratch).Take<float>(BlockedCount(x));
    Int8ToBlocked(args.context.threads(), x[0], x[1], x.count(2), args.inputs[0].raw(),
                  InputScale(layer, 0), wide);
    Round(args.context.threads(), x, wide, args.outputs[0].raw());
  };
  return implementation;
}

}  // namespace

void RegisterReorder(Registry& registry) {
  LayerType type;
  type.name = "Reorder";
  type.traits = {.computes_on_bytes = true};
  type.category = "shape";
  type.summary = "The same blob in another memory format; nets get it where it is needed.";
  type.formula = "y = x";
  type.input_docs = {"x: any shape"};
  type.output_docs = {"y: the shape of x"};
  type.origin = "Crema";
  type.make = [](const LayerParameter& param) -> std::unique_ptr<const Layer> {
    return std::make_unique<Reorder>(param);
  };
  constexpr auto kPlain = MemoryFormat::kPlain;
  constexpr auto kBlocked = MemoryFormat::kBlocked;
  constexpr auto kHalves = MemoryFormat::kBlockedBF16;
  type.implementations = {
      MakeImplementation("to blocked", kPlain, kBlocked, ToBlocked<float>, ToPlain<float>),
      MakeImplementation("to plain", kBlocked, kPlain, ToPlain<float>, ToBlocked<float>),
      MakeImplementation("to blocked bf16", kPlain, kHalves, ToBlocked<BFloat16>,
                         ToPlain<BFloat16>),
      MakeImplementation("bf16 to plain", kHalves, kPlain, ToPlain<BFloat16>, ToBlocked<BFloat16>),
      MakeImplementation("to bf16", kBlocked, kHalves, Round, Widen),
      MakeImplementation("from bf16", kHalves, kBlocked, Widen, Round),
      ToInt8("to int8", kPlain, PlainToInt8),
      ToInt8("blocked to int8", kBlocked, BlockedToInt8),
      FromInt8("int8 to plain", kPlain, Int8ToPlain),
      FromInt8("int8 to blocked", kBlocked, Int8ToBlocked),
      BF16ToInt8(),
      Int8ToBF16()};
  type.samples = {
      {.name = "image", .prototxt = "", .inputs = {{.shape = {2, 19, 3, 5}}}},
      {.name = "whole_blocks", .prototxt = "", .inputs = {{.shape = {1, 32, 4, 4}}}},
      {.name = "vector", .prototxt = "", .inputs = {{.shape = {7}}}},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
