// Implementation "cudnn" of LRN across channels. cuDNN also divides alpha by the size of the
// window. Backward reads y instead of a saved scale.
#include <memory>

#include "crema.pb.h"
#include "layers/cudnn_implementation.h"
#include "math/cuda/cudnn_descriptors.h"

namespace crema {
namespace {

CudnnSizes SizesOf(const OpDesc& query) {
  const Shape& shape = query.context.inputs[0].shape;
  return {shape[0], shape[1], shape.count(2), 1};
}

bool IsEmpty(const OpDesc& query) { return query.context.inputs[0].shape.count() == 0; }

// Depends on the sizes of the input only by the number of elements. So a session whose inputs
// change need not switch to the native implementation, which saves something else.
Support Supports(const OpDesc& query) {
  const Support support = SupportsCudnn(query);
  if (!support.yes) return support;
  if (query.context.dtype != DType::kF32) {
    return Support::No("is for f32: cuDNN rounds alpha, beta and k to the type of the blobs");
  }
  const LRNParameter& lrn = query.layer.param().lrn_param();
  if (lrn.norm_region() == LRNParameter::WITHIN_CHANNEL) {
    return Support::No("is for ACROSS_CHANNELS");
  }
  if (lrn.local_size() > CUDNN_LRN_MAX_N || lrn.k() < CUDNN_LRN_MIN_K ||
      lrn.beta() < CUDNN_LRN_MIN_BETA) {
    return Support::No(StrCat("is for a local_size of up to ", CUDNN_LRN_MAX_N, ", k from ",
                              CUDNN_LRN_MIN_K, " and beta from ", CUDNN_LRN_MIN_BETA));
  }
  if (!IsEmpty(query) && !FitsCudnn(SizesOf(query))) {
    return Support::No("is for less than 2^31 elements");
  }
  return {};
}

CudnnLrnOwner MakeLrn(const LRNParameter& param) {
  cudnnLRNDescriptor_t made = nullptr;
  CheckCudnn(Cudnn().create_lrn(&made), "cudnnCreateLRNDescriptor");
  CudnnLrnOwner lrn(made, {&Cudnn()});
  CheckCudnn(Cudnn().set_lrn(made, param.local_size(), param.alpha(), param.beta(), param.k()),
             "cudnnSetLRNDescriptor");
  return lrn;
}

struct State final : ImplementationState {
  explicit State(const OpDesc& query)
      : tensor(IsEmpty(query) ? nullptr : MakeCudnnTensor(query.context.dtype, SizesOf(query))),
        lrn(MakeLrn(query.layer.param().lrn_param())) {}
  CudnnTensorOwner tensor;
  CudnnLrnOwner lrn;
};

void Forward(const Layer&, const ForwardArgs& args) {
  if (args.inputs[0].count() == 0) return;
  const CudaQueue& queue = BoundQueue(args.context);
  const auto& state = *static_cast<const State*>(args.implementation_state);
  const void* x = args.inputs[0].raw();
  void* y = args.outputs[0].raw();
  queue.Call("cudnnLRNCrossChannelForward", [=, &state, handle = queue.cudnn()] {
    cudnnTensorDescriptor_t tensor = state.tensor.get();
    CheckCudnn(Cudnn().lrn_forward(handle, state.lrn.get(), CUDNN_LRN_CROSS_CHANNEL_DIM1,
                                   &kCudnnOne, tensor, x, &kCudnnZero, tensor, y),
               "cudnnLRNCrossChannelForward");
  });
}

void Backward(const Layer&, const BackwardArgs& args) {
  if (args.input_grads[0].empty() || args.input_grads[0].count() == 0) return;
  const CudaQueue& queue = BoundQueue(args.context);
  const auto& state = *static_cast<const State*>(args.implementation_state);
  const void *x = args.inputs[0].raw(), *y = args.outputs[0].raw();
  const void* dy = args.output_grads[0].raw();
  void* dx = args.input_grads[0].raw();
  queue.Call("cudnnLRNCrossChannelBackward", [=, &state, handle = queue.cudnn()] {
    cudnnTensorDescriptor_t tensor = state.tensor.get();
    CheckCudnn(
        Cudnn().lrn_backward(handle, state.lrn.get(), CUDNN_LRN_CROSS_CHANNEL_DIM1, &kCudnnOne,
                             tensor, y, tensor, dy, tensor, x, &kCudnnZero, tensor, dx),
        "cudnnLRNCrossChannelBackward");
  });
}

LayerInfo InfoOf(const OpDesc& query) {
  LayerInfo info = query.info;
  info.saved.clear();
  info.backward_reads_input = {true};
  info.backward_reads_output = {true};
  return info;
}

}  // namespace

void RegisterLRNCudnn(Registry& registry) {
  registry.AddImplementation("LRN",
                             MakeCudnnImplementation<State>(Supports, Forward, Backward, InfoOf));
}

}  // namespace crema
