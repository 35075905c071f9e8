#include <utility>

#include "graph/move_seconds.h"
#include "layers/channels_last_row.h"
#include "layers/gpu_row.h"
#include "layers/through_row_major.h"
#include "math/cuda/turn.cuh"
#include "math/scratch.h"

namespace crema {
namespace {

// Reorders and the row itself, which can be seen in a plan, are to be estimated as less.
constexpr double kLastChoice = 10;

void TurnBlob(const CudaQueue& queue, const ConstTensorView& x, bool to_channels_last, void* y) {
  const Shape& shape = x.shape();
  Matrices m{shape[0], shape[1], SpaceOf(shape)};
  if (!to_channels_last) std::swap(m.rows, m.columns);
  DispatchCudaFloat(x.dtype(),
                    [&]<typename T>(T) { Turn(queue, m, Elements<T>(x), static_cast<T*>(y)); });
}

int64_t BytesOf(const Shape& shape, DType dtype) {
  return shape.count() * static_cast<int64_t>(SizeOf(dtype));
}

class RowMajorBlobs {
 public:
  RowMajorBlobs(const ExecContext& context, std::span<std::byte> scratch)
      : queue_(BoundQueue(context)), device_(context.device()), cutter_(scratch) {}

  // Room for a blob like that; empty views stay.
  TensorView Room(const ConstTensorView& like) {
    if (like.empty()) return {nullptr, like.shape(), like.dtype(), device_};
    void* memory = cutter_.Take<std::byte>(BytesOf(like.shape(), like.dtype()));
    return {memory, like.shape(), like.dtype(), device_};
  }
  ConstTensorView Turned(const ConstTensorView& blob) {
    const TensorView turned = Room(blob);
    if (!blob.empty()) TurnBlob(queue_, blob, false, turned.raw());
    return turned;
  }
  void TurnBack(const TensorView& turned, const TensorView& blob) const {
    if (!blob.empty()) TurnBlob(queue_, turned, true, blob.raw());
  }
  std::span<std::byte> Rest() { return cutter_.Rest(); }

 private:
  const CudaQueue& queue_;
  const Device device_;
  ScratchCutter cutter_;
};

void Forward(const Kernel& row, const Layer& layer, const ForwardArgs& args) {
  RowMajorBlobs blobs(args.context, args.scratch);
  const ConstTensorView x = blobs.Turned(args.inputs[0]);
  const TensorView y = blobs.Room(args.outputs[0]);
  ForwardArgs turned = args;
  turned.inputs = {&x, 1};
  turned.outputs = {&y, 1};
  turned.scratch = blobs.Rest();
  row.forward(layer, turned);
  blobs.TurnBack(y, args.outputs[0]);
}

void Backward(const Kernel& row, const Layer& layer, const BackwardArgs& args) {
  RowMajorBlobs blobs(args.context, args.scratch);
  const ConstTensorView x = blobs.Turned(args.inputs[0]);
  const ConstTensorView y = blobs.Turned(args.outputs[0]);
  const ConstTensorView dy = blobs.Turned(args.output_grads[0]);
  const TensorView dx = blobs.Room(args.input_grads[0]);
  BackwardArgs turned = args;
  turned.inputs = {&x, 1};
  turned.outputs = {&y, 1};
  turned.output_grads = {&dy, 1};
  turned.input_grads = {&dx, 1};
  turned.scratch = blobs.Rest();
  row.backward(layer, turned);
  blobs.TurnBack(dx, args.input_grads[0]);
}

// Of the input and the output.
size_t BytesOfBoth(const KernelQuery& query) {
  const DType dtype = query.context.dtype;
  return ScratchBytes<std::byte>(BytesOf(query.context.inputs[0].shape, dtype)) +
         ScratchBytes<std::byte>(BytesOf(query.info.outputs[0].shape, dtype)) + kScratchSlack;
}

Support HasOneOfEach(const KernelQuery& query) {
  if (query.context.inputs.size() == 1 && query.info.outputs.size() == 1) return {};
  return Support::No("is for one input and one output");
}

}  // namespace

Kernel ThroughRowMajor(Kernel own) {
  Kernel row = InChannelsLast(own, HasOneOfEach);
  row.forward = [own](const Layer& layer, const ForwardArgs& args) { Forward(own, layer, args); };
  row.backward = [own](const Layer& layer, const BackwardArgs& args) {
    Backward(own, layer, args);
  };
  row.forward_scratch = [own](const KernelQuery& query) {
    return BytesOfBoth(query) + ForwardScratchOf(&own, query);
  };
  row.backward_scratch = [own](const KernelQuery& query) {
    return 2 * BytesOfBoth(query) + BackwardScratchOf(&own, query);
  };
  row.seconds = [](const KernelQuery& query) { return kLastChoice * MoveSeconds(query); };
  row.absorbs = {};
  return row;
}

}  // namespace crema
