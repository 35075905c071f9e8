#include <utility>

#include "layers/channels_last_implementation.h"
#include "layers/gpu_implementation.h"
#include "layers/layout_fallback.h"
#include "math/cuda/transpose.cuh"
#include "math/scratch.h"
#include "plan/copy_cost.h"

namespace crema {
namespace {

// Factor on the estimate, so that a reorder in the plan followed by the row-major implementation is
// preferred.
constexpr double kLastChoice = 10;

void TransposeBlob(const CudaQueue& queue, const ConstTensorView& x, bool to_channels_last,
                   void* y) {
  const Shape& shape = x.shape();
  Matrices m{shape[0], shape[1], SpaceOf(shape)};
  if (!to_channels_last) std::swap(m.rows, m.columns);
  DispatchCudaFloat(
      x.dtype(), [&]<typename T>(T) { Transpose(queue, m, Elements<T>(x), static_cast<T*>(y)); });
}

int64_t BytesOf(const Shape& shape, DType dtype) {
  return shape.count() * static_cast<int64_t>(SizeOf(dtype));
}

class RowMajorBlobs {
 public:
  RowMajorBlobs(const ExecContext& context, std::span<std::byte> scratch)
      : queue_(BoundQueue(context)), device_(context.device()), cutter_(scratch) {}

  // Takes scratch for a blob of that shape and type; returns an empty view for an empty one.
  TensorView Room(const ConstTensorView& like) {
    if (like.empty()) return {nullptr, like.shape(), like.dtype(), device_};
    void* memory = cutter_.Take<std::byte>(BytesOf(like.shape(), like.dtype()));
    return {memory, like.shape(), like.dtype(), device_};
  }
  ConstTensorView Transposed(const ConstTensorView& blob) {
    const TensorView transposed = Room(blob);
    if (!blob.empty()) TransposeBlob(queue_, blob, false, transposed.raw());
    return transposed;
  }
  void TransposeBack(const TensorView& transposed, const TensorView& blob) const {
    if (!blob.empty()) TransposeBlob(queue_, transposed, true, blob.raw());
  }
  std::span<std::byte> Rest() { return cutter_.Rest(); }

 private:
  const CudaQueue& queue_;
  const Device device_;
  ScratchCutter cutter_;
};

// Scratch for the input and the output.
size_t BytesOfBoth(const OpDesc& query) {
  const DType dtype = query.context.dtype;
  return ScratchBytes<std::byte>(BytesOf(query.context.inputs[0].shape, dtype)) +
         ScratchBytes<std::byte>(BytesOf(query.info.outputs[0].shape, dtype)) + kScratchSlack;
}

Support HasOneOfEach(const OpDesc& query) {
  if (query.context.inputs.size() == 1 && query.info.outputs.size() == 1) return {};
  return Support::No("is for one input and one output");
}

class TransposingImplementation final : public ChannelsLastAdapter {
 public:
  explicit TransposingImplementation(const ImplementationPtr& own)
      : ChannelsLastAdapter(own, HasOneOfEach) {}

  std::optional<double> Seconds(const OpDesc& op) const override {
    return kLastChoice * CopySeconds(op);
  }
  Needs NeedsOf(const OpDesc& op) const override {
    Needs needs = own().NeedsOf(op);
    needs.forward_scratch += BytesOfBoth(op);
    if (op.backward) needs.backward_scratch += 2 * BytesOfBoth(op);
    return needs;
  }
  void Forward(const Layer& layer, const ForwardArgs& args) const override {
    RowMajorBlobs blobs(args.context, args.scratch);
    const ConstTensorView x = blobs.Transposed(args.inputs[0]);
    const TensorView y = blobs.Room(args.outputs[0]);
    ForwardArgs transposed = args;
    transposed.inputs = {&x, 1};
    transposed.outputs = {&y, 1};
    transposed.scratch = blobs.Rest();
    own().Forward(layer, transposed);
    blobs.TransposeBack(y, args.outputs[0]);
  }
  void Backward(const Layer& layer, const BackwardArgs& args) const override {
    RowMajorBlobs blobs(args.context, args.scratch);
    const ConstTensorView x = blobs.Transposed(args.inputs[0]);
    const ConstTensorView y = blobs.Transposed(args.outputs[0]);
    const ConstTensorView dy = blobs.Transposed(args.output_grads[0]);
    const TensorView dx = blobs.Room(args.input_grads[0]);
    BackwardArgs transposed = args;
    transposed.inputs = {&x, 1};
    transposed.outputs = {&y, 1};
    transposed.output_grads = {&dy, 1};
    transposed.input_grads = {&dx, 1};
    transposed.scratch = blobs.Rest();
    own().Backward(layer, transposed);
    blobs.TransposeBack(dx, args.input_grads[0]);
  }
};

}  // namespace

ImplementationPtr LayoutFallback(const ImplementationPtr& implementation) {
  return std::make_shared<TransposingImplementation>(implementation);
}

}  // namespace crema
