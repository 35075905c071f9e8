// Row "blocked": MAX and AVE pooling of planes, a vector of channels at a time.
#include "layers/blocked_row.h"
#include "layers/pooling/pooling.h"
#include "math/blocked_pool.h"

namespace crema {
namespace {

const Pooling& PoolingOf(const Layer& layer) { return static_cast<const Pooling&>(layer); }

Support Supports(const KernelQuery& query) {
  Support support = SupportsWholeBlocks(query);
  if (!support.yes) return support;
  if (query.info.outputs.size() > 1) return Support::No("gives no positions");
  return PoolingOf(query.layer).SupportsBlocks(query.context.inputs[0].shape);
}

void Forward(const Layer& layer, const ForwardArgs& args) {
  const Pooling& pooling = PoolingOf(layer);
  const Shape& shape = args.inputs[0].shape();
  const PoolWindow window = pooling.PlaneWindow(shape);
  const int64_t planes = shape[0] * shape[1] / ChannelBlock();
  const float* x = args.inputs[0].data<float>();
  float* y = args.outputs[0].data<float>();
  const int threads = args.context.threads();
  if (pooling.IsAverage()) {
    return BlockedAveragePool(threads, window, pooling.ExcludesPad(), planes, x, y);
  }
  const TensorView saved = args.saved.empty() ? TensorView() : args.saved[0];
  if (saved.empty() || saved.dtype() == DType::kU8) {
    BlockedMaxPool(threads, window, planes, x, y, static_cast<uint8_t*>(saved.raw()));
  } else {
    BlockedMaxPool(threads, window, planes, x, y, static_cast<int32_t*>(saved.raw()));
  }
}

void Backward(const Layer& layer, const BackwardArgs& args) {
  if (args.input_grads[0].empty()) return;
  const Pooling& pooling = PoolingOf(layer);
  const Shape& shape = args.input_grads[0].shape();
  const PoolWindow window = pooling.PlaneWindow(shape);
  const int64_t planes = shape[0] * shape[1] / ChannelBlock();
  const float* dy = args.output_grads[0].data<float>();
  float* dx = args.input_grads[0].data<float>();
  const int threads = args.context.threads();
  if (pooling.IsAverage()) {
    return BlockedAveragePoolBackward(threads, window, pooling.ExcludesPad(), planes, dy, dx);
  }
  const ConstTensorView saved = args.saved[0];
  if (saved.dtype() == DType::kU8) {
    BlockedMaxPoolBackward(threads, window, planes, static_cast<const uint8_t*>(saved.raw()), dy,
                           dx);
  } else {
    BlockedMaxPoolBackward(threads, window, planes, static_cast<const int32_t*>(saved.raw()), dy,
                           dx);
  }
}

}  // namespace

Kernel BlockedPoolingKernel() { return MakeBlockedRow(Supports, Forward, Backward); }

}  // namespace crema
