// Implementation "blocked": MAX and AVE pooling of planes, one vector of channels at a time. And
// "NHWC bf16": the same forward on channels-last blobs.
#include "core/bfloat16.h"
#include "layers/blocked_implementation.h"
#include "layers/part_blocks.h"
#include "layers/pooling/pooling.h"
#include "math/blocked_pool.h"

namespace crema {
namespace {

const Pooling& PoolingOf(const Layer& layer) { return static_cast<const Pooling&>(layer); }

Support Supports(const OpDesc& query) {
  if (const Support support = SupportsBlocked(query); !support.yes) return support;
  const bool part = query.context.inputs[0].shape[1] % ChannelBlock() != 0;
  // Saved positions have no place for the channels that pad a block.
  if (part && query.backward) return Support::No("trains on channels that fill whole blocks only");
  if (part && query.output_stride != 0) return Support::No("writes whole blocks only to sub-views");
  if (query.info.outputs.size() > 1) return Support::No("gives no positions");
  return PoolingOf(query.layer).SupportsBlocks(query.context.inputs[0].shape);
}

Support SupportsChannelsLastBF16(const OpDesc& query) {
  if (const Support stores = StoresBFloat16(query); !stores.yes) return stores;
  if (query.backward) return Support::No("computes no gradients");
  const Support support = SupportsWholeBlocks(query);
  return support.yes ? Supports(query) : support;
}

template <typename T>
void ForwardOn(const Layer& layer, const BlockedPoolPlanes& planes, const ForwardArgs& args) {
  const Pooling& pooling = PoolingOf(layer);
  const PoolWindow window = pooling.PlaneWindow(args.inputs[0].shape());
  const T* x = args.inputs[0].data<T>();
  T* y = args.outputs[0].data<T>();
  const int threads = args.context.threads();
  const TensorView saved = args.saved.empty() ? TensorView() : args.saved[0];
  if (pooling.IsAverage()) {
    BlockedAveragePool(threads, window, pooling.ExcludesPad(), planes, x, y);
  } else if (saved.empty() || saved.dtype() == DType::kU8) {
    BlockedMaxPool(threads, window, planes, x, y, static_cast<uint8_t*>(saved.raw()));
  } else {
    BlockedMaxPool(threads, window, planes, x, y, static_cast<int32_t*>(saved.raw()));
  }
}

template <typename T>
void ForwardOf(const Layer& layer, const ForwardArgs& args) {
  const Shape& shape = args.inputs[0].shape();
  const int64_t blocks = (shape[1] + ChannelBlock() - 1) / ChannelBlock();
  ForwardOn<T>(layer, {shape[0], blocks, args.outputs[0].image_stride()}, args);
  ClearPadding(args.outputs[0]);  // empty windows do not give 0
}

void ForwardChannelsLastBF16(const Layer& layer, const ForwardArgs& args) {
  const Shape& shape = args.inputs[0].shape();
  ForwardOn<BFloat16>(layer, BlockedPoolPlanes::ChannelsLast(shape[0], shape[1]), args);
}

template <typename T>
void BackwardOf(const Layer& layer, const BackwardArgs& args) {
  const Pooling& pooling = PoolingOf(layer);
  const Shape& shape = args.input_grads[0].shape();
  const PoolWindow window = pooling.PlaneWindow(shape);
  const BlockedPoolPlanes planes(shape[0], shape[1] / ChannelBlock(),
                                 args.output_grads[0].image_stride());
  const T* dy = args.output_grads[0].data<T>();
  T* dx = args.input_grads[0].data<T>();
  const int threads = args.context.threads();
  if (pooling.IsAverage()) {
    return BlockedAveragePoolBackward(threads, window, pooling.ExcludesPad(), planes, dy, dx,
                                      args.scratch);
  }
  const ConstTensorView saved = args.saved[0];
  if (saved.dtype() == DType::kU8) {
    BlockedMaxPoolBackward(threads, window, planes, static_cast<const uint8_t*>(saved.raw()), dy,
                           dx, args.scratch);
  } else {
    BlockedMaxPoolBackward(threads, window, planes, static_cast<const int32_t*>(saved.raw()), dy,
                           dx, args.scratch);
  }
}

void Forward(const Layer& layer, const ForwardArgs& args) {
  const bool halves = args.inputs[0].dtype() == DType::kBF16;
  (halves ? ForwardOf<BFloat16> : ForwardOf<float>)(layer, args);
}

void Backward(const Layer& layer, const BackwardArgs& args) {
  if (args.input_grads[0].empty()) return;
  const bool halves = args.input_grads[0].dtype() == DType::kBF16;
  (halves ? BackwardOf<BFloat16> : BackwardOf<float>)(layer, args);
}

size_t BackwardScratch(const OpDesc& query) {
  const Shape& shape = query.context.inputs[0].shape;
  return BlockedPoolBackwardScratch(query.threads, PoolingOf(query.layer).PlaneWindow(shape));
}

ImplementationPtr MakeImplementation(size_t (*backward_scratch)(const OpDesc&)) {
  ImplementationFacts facts = BlockedFacts("blocked");
  facts.strided_output = true;
  return MakeSimpleImplementation(std::move(facts), {.supports = Supports,
                                                     .forward = Forward,
                                                     .backward = Backward,
                                                     .backward_scratch = backward_scratch});
}

}  // namespace

ImplementationPtr BlockedPoolingImplementation() { return MakeImplementation(nullptr); }

ImplementationPtr BlockedBF16PoolingImplementation() {
  return StoringBFloat16(MakeImplementation(BackwardScratch));
}

ImplementationPtr ChannelsLastBF16PoolingImplementation() {
  constexpr MemoryFormat kFormat{Layout::kNHWC, DType::kBF16};
  return MakeSimpleImplementation(
      {.name = "NHWC bf16", .input_format = kFormat, .output_format = kFormat},
      {.supports = SupportsChannelsLastBF16, .forward = ForwardChannelsLastBF16});
}

}  // namespace crema
