// Implementation "cudnn" of Softmax. The classes are cuDNN's channels, the axes after them its
// rows.
#include <memory>

#include "crema.pb.h"
#include "layers/cudnn_implementation.h"
#include "math/cuda/cudnn_descriptors.h"

namespace crema {
namespace {

CudnnSizes SizesOf(const OpDesc& query) {
  const Shape& shape = query.context.inputs[0].shape;
  const int axis = shape.CanonicalAxis(query.layer.param().softmax_param().axis());
  return {shape.count(0, axis), shape[axis], shape.count(axis + 1), 1};
}

Support Supports(const OpDesc& query) {
  const Support support = SupportsCudnn(query);
  if (!support.yes) return support;
  if (!FitsCudnn(SizesOf(query))) return Support::No("is for 1 to 2^31 - 1 elements");
  return {};
}

struct State final : ImplementationState {
  explicit State(const OpDesc& query)
      : tensor(MakeCudnnTensor(query.context.dtype, SizesOf(query))) {}
  CudnnTensorOwner tensor;
};

void Forward(const Layer&, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  cudnnTensorDescriptor_t tensor =
      static_cast<const State*>(args.implementation_state)->tensor.get();
  const void* x = args.inputs[0].raw();
  void* y = args.outputs[0].raw();
  queue.Call("cudnnSoftmaxForward", [=, handle = queue.cudnn()] {
    CheckCudnn(Cudnn().softmax_forward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL,
                                       &kCudnnOne, tensor, x, &kCudnnZero, tensor, y),
               "cudnnSoftmaxForward");
  });
}

void Backward(const Layer&, const BackwardArgs& args) {
  if (args.input_grads[0].empty()) return;
  const CudaQueue& queue = BoundQueue(args.context);
  cudnnTensorDescriptor_t tensor =
      static_cast<const State*>(args.implementation_state)->tensor.get();
  const void *y = args.outputs[0].raw(), *dy = args.output_grads[0].raw();
  void* dx = args.input_grads[0].raw();
  queue.Call("cudnnSoftmaxBackward", [=, handle = queue.cudnn()] {
    CheckCudnn(Cudnn().softmax_backward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL,
                                        &kCudnnOne, tensor, y, tensor, dy, &kCudnnZero, tensor, dx),
               "cudnnSoftmaxBackward");
  });
}

// cuDNN does not document that forward may run in place.
LayerInfo InfoOf(const OpDesc& query) {
  LayerInfo info = query.info;
  info.in_place = false;
  return info;
}

}  // namespace

void RegisterSoftmaxCudnn(Registry& registry) {
  registry.AddImplementation("Softmax",
                             MakeCudnnImplementation<State>(Supports, Forward, Backward, InfoOf));
}

}  // namespace crema
