// Concat and Slice on the GPU; see concat.cc and slice.cc.
#include "layers/channels_last_implementation.h"
#include "layers/gpu_implementation.h"
#include "layers/shape/axis_parts.h"
#include "layers/shape/strided_copy.cuh"

namespace crema {
namespace {

// A shape, and the axis, of a blob as it lies in memory.
template <bool kLast>
Shape Stored(const Shape& shape) {
  return kLast ? RowsOfChannels(shape) : shape;
}
template <bool kLast>
int StoredConcatAxis(const Layer& layer, const Shape& whole) {
  return kLast ? 1 : ConcatAxis(layer, whole);
}
template <bool kLast>
int StoredSliceAxis(const Layer& layer, const Shape& whole) {
  return kLast ? 1 : SliceAxis(layer, whole);
}

template <bool kLast>
void Join(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const Shape whole = Stored<kLast>(args.outputs[0].shape());
  const int axis = StoredConcatAxis<kLast>(layer, whole);
  DispatchCudaFloat(args.outputs[0].dtype(), [&]<typename T>(T) {
    T* to = Elements<T>(args.outputs[0]);
    for (const ConstTensorView& input : args.inputs) {
      const Shape part = Stored<kLast>(input.shape());
      CopyStrided(queue, AxisPart(part, whole, axis), Elements<T>(input), to);
      to += part.count(axis);
    }
  });
}

template <bool kLast>
void JoinBackward(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const Shape whole = Stored<kLast>(args.output_grads[0].shape());
  const int axis = StoredConcatAxis<kLast>(layer, whole);
  DispatchCudaFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
    const T* from = Elements<T>(args.output_grads[0]);
    for (size_t i = 0; i < args.input_grads.size(); ++i) {
      const Shape part = Stored<kLast>(args.inputs[i].shape());
      if (!args.input_grads[i].empty()) {
        CopyStrided(queue, AxisPart(part, whole, axis).Reversed(), from,
                    Elements<T>(args.input_grads[i]));
      }
      from += part.count(axis);
    }
  });
}

template <bool kLast>
void Cut(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const Shape whole = Stored<kLast>(args.inputs[0].shape());
  const int axis = StoredSliceAxis<kLast>(layer, whole);
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const T* from = Elements<T>(args.inputs[0]);
    for (const TensorView& output : args.outputs) {
      const Shape part = Stored<kLast>(output.shape());
      CopyStrided(queue, AxisPart(part, whole, axis).Reversed(), from, Elements<T>(output));
      from += part.count(axis);
    }
  });
}

template <bool kLast>
void CutBackward(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const Shape whole = Stored<kLast>(args.input_grads[0].shape());
  const int axis = StoredSliceAxis<kLast>(layer, whole);
  DispatchCudaFloat(args.input_grads[0].dtype(), [&]<typename T>(T) {
    T* to = Elements<T>(args.input_grads[0]);
    for (const ConstTensorView& dy : args.output_grads) {
      const Shape part = Stored<kLast>(dy.shape());
      CopyStrided(queue, AxisPart(part, whole, axis), Elements<T>(dy), to);
      to += part.count(axis);
    }
  });
}

Support ConcatsChannels(const OpDesc& query) {
  if (ConcatAxis(query.layer, query.context.inputs[0].shape) == 1) return {};
  return Support::No("is for axis 1");
}
Support SlicesChannels(const OpDesc& query) {
  if (SliceAxis(query.layer, query.context.inputs[0].shape) == 1) return {};
  return Support::No("is for axis 1");
}

}  // namespace

void RegisterConcatCuda(Registry& registry) {
  registry.AddImplementation(
      "Concat",
      InChannelsLast(MakeCudaImplementation(Join<true>, JoinBackward<true>), ConcatsChannels));
  registry.AddImplementation("Concat", MakeCudaImplementation(Join<false>, JoinBackward<false>));
}

void RegisterSliceCuda(Registry& registry) {
  registry.AddImplementation(
      "Slice",
      InChannelsLast(MakeCudaImplementation(Cut<true>, CutBackward<true>), SlicesChannels));
  registry.AddImplementation("Slice", MakeCudaImplementation(Cut<false>, CutBackward<false>));
}

}  // namespace crema
