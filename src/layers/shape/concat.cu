// Concat and Slice on the GPU; see concat.cc and slice.cc.
#include "layers/gpu_row.h"
#include "layers/shape/axis_parts.h"
#include "layers/shape/strided_copy.cuh"

namespace crema {
namespace {

void Join(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const TensorView& whole = args.outputs[0];
  const int axis = ConcatAxis(layer, whole.shape());
  DispatchCudaFloat(whole.dtype(), [&]<typename T>(T) {
    T* to = Elements<T>(whole);
    for (const ConstTensorView& part : args.inputs) {
      CopyStrided(queue, AxisPart(part.shape(), whole.shape(), axis), Elements<T>(part), to);
      to += part.shape().count(axis);
    }
  });
}

void JoinBackward(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& whole = args.output_grads[0];
  const int axis = ConcatAxis(layer, whole.shape());
  DispatchCudaFloat(whole.dtype(), [&]<typename T>(T) {
    const T* from = Elements<T>(whole);
    for (size_t i = 0; i < args.input_grads.size(); ++i) {
      const Shape& part = args.inputs[i].shape();
      if (!args.input_grads[i].empty()) {
        CopyStrided(queue, AxisPart(part, whole.shape(), axis).Reversed(), from,
                    Elements<T>(args.input_grads[i]));
      }
      from += part.count(axis);
    }
  });
}

void Cut(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& whole = args.inputs[0];
  const int axis = SliceAxis(layer, whole.shape());
  DispatchCudaFloat(whole.dtype(), [&]<typename T>(T) {
    const T* from = Elements<T>(whole);
    for (const TensorView& part : args.outputs) {
      CopyStrided(queue, AxisPart(part.shape(), whole.shape(), axis).Reversed(), from,
                  Elements<T>(part));
      from += part.shape().count(axis);
    }
  });
}

void CutBackward(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const TensorView& whole = args.input_grads[0];
  const int axis = SliceAxis(layer, whole.shape());
  DispatchCudaFloat(whole.dtype(), [&]<typename T>(T) {
    T* to = Elements<T>(whole);
    for (const ConstTensorView& part : args.output_grads) {
      CopyStrided(queue, AxisPart(part.shape(), whole.shape(), axis), Elements<T>(part), to);
      to += part.shape().count(axis);
    }
  });
}

}  // namespace

void RegisterConcatCuda(Registry& registry) {
  registry.AddKernel("Concat", MakeCudaRow(Join, JoinBackward));
}

void RegisterSliceCuda(Registry& registry) {
  registry.AddKernel("Slice", MakeCudaRow(Cut, CutBackward));
}

}  // namespace crema
