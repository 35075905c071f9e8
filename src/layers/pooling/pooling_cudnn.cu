// Implementation "cudnn" of Pooling: MAX without a backward pass, and AVE, of planes. cuDNN's
// windows begin where Caffe's do and all end within the padding, so both agree if no window of
// Caffe ends beyond it. AVE then divides by the whole window, or by its part inside the image, as
// cuDNN's two modes do. For MAX in training, cuDNN does not document which of equal values gets the
// gradient.
#include <memory>

#include "layers/cudnn_implementation.h"
#include "layers/pooling/pooling.h"
#include "math/cuda/cudnn_descriptors.h"

namespace crema {
namespace {

PoolPlanes PlanesOf(const OpDesc& query) {
  return static_cast<const Pooling&>(query.layer)
      .Planes(query.context.inputs[0].shape, query.context.phase);
}

struct Sizes {
  explicit Sizes(const OpDesc& query) {
    const Shape& input = query.context.inputs[0].shape;
    const Shape& output = query.info.outputs[0].shape;
    const int first = static_cast<const Pooling&>(query.layer).FirstSpatial(input);
    x = {input.count(0, first - 1), input[first - 1], input[first], input[first + 1]};
    y = {x[0], x[1], output[first], output[first + 1]};
  }
  CudnnSizes x, y;
};

// Returns true if Caffe has exactly the windows that lie within image and padding.
bool SameWindows(const PoolAxis& axis) {
  const int64_t moves = axis.in + 2 * axis.pad - axis.kernel;
  return moves >= 0 && axis.out == moves / axis.stride + 1;
}

bool IsSmall(const PoolAxis& axis) {
  constexpr int64_t kMost = int64_t{1} << 30;
  return axis.kernel <= kMost && axis.stride <= kMost && axis.pad < axis.kernel;
}

Support SupportsWindows(const OpDesc& query) {
  const PoolPlanes pool = PlanesOf(query);
  const bool max = pool.method() == PoolPlanes::Method::kMax;
  if (!max && pool.method() != PoolPlanes::Method::kAverage) {
    return Support::No("is for MAX and AVE");
  }
  if (max && query.backward) return Support::No("does not say which of equal maxima it took");
  if (query.info.outputs.size() > 1) return Support::No("gives no positions");
  if (pool.window().size != 2) return Support::No("is for two spatial axes");
  const PoolWindow window = pool.window().Plane();
  if (!IsSmall(window.h) || !IsSmall(window.w)) {
    return Support::No("is for windows of up to 2^30 cells that are wider than the padding");
  }
  if (!SameWindows(window.h) || !SameWindows(window.w)) {
    return Support::No("a window ends beyond the padding, where cuDNN has none");
  }
  const Sizes sizes(query);
  if (!FitsCudnn(sizes.x) || !FitsCudnn(sizes.y)) {
    return Support::No("is for 1 to 2^31 - 1 elements");
  }
  return {};
}

Support Supports(const OpDesc& query) {
  const Support support = SupportsCudnn(query);
  return support.yes ? SupportsWindows(query) : support;
}

CudnnPoolingOwner MakePooling(const PoolPlanes& pool) {
  cudnnPoolingDescriptor_t made = nullptr;
  CheckCudnn(Cudnn().create_pooling(&made), "cudnnCreatePoolingDescriptor");
  CudnnPoolingOwner pooling(made, {&Cudnn()});
  const bool max = pool.method() == PoolPlanes::Method::kMax;
  const cudnnPoolingMode_t average = pool.exclude_pad()
                                         ? CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING
                                         : CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING;
  const PoolWindow window = pool.window().Plane();
  const auto number = [](int64_t value) { return static_cast<int>(value); };
  CheckCudnn(Cudnn().set_pooling_2d(
                 made, max ? CUDNN_POOLING_MAX : average, CUDNN_NOT_PROPAGATE_NAN,
                 number(window.h.kernel), number(window.w.kernel), number(window.h.pad),
                 number(window.w.pad), number(window.h.stride), number(window.w.stride)),
             "cudnnSetPooling2dDescriptor");
  return pooling;
}

struct State final : ImplementationState {
  explicit State(const OpDesc& query) : State(query, Sizes(query)) {}
  State(const OpDesc& query, const Sizes& sizes)
      : x(MakeCudnnTensor(query.context.dtype, sizes.x)),
        y(MakeCudnnTensor(query.context.dtype, sizes.y)),
        pooling(MakePooling(PlanesOf(query))) {}
  CudnnTensorOwner x, y;
  CudnnPoolingOwner pooling;
};

void Forward(const Layer&, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const auto& state = *static_cast<const State*>(args.implementation_state);
  const void* x = args.inputs[0].raw();
  void* y = args.outputs[0].raw();
  queue.Call("cudnnPoolingForward", [=, &state, handle = queue.cudnn()] {
    CheckCudnn(Cudnn().pooling_forward(handle, state.pooling.get(), &kCudnnOne, state.x.get(), x,
                                       &kCudnnZero, state.y.get(), y),
               "cudnnPoolingForward");
  });
}

void Backward(const Layer&, const BackwardArgs& args) {
  if (args.input_grads[0].empty()) return;
  const CudaQueue& queue = BoundQueue(args.context);
  const auto& state = *static_cast<const State*>(args.implementation_state);
  const void* dy = args.output_grads[0].raw();
  void* dx = args.input_grads[0].raw();
  // The gradient of a mean depends on neither x nor y, which are not available. cuDNN requires
  // addresses, so dy and dx are passed for them.
  queue.Call("cudnnPoolingBackward", [=, &state, handle = queue.cudnn()] {
    CheckCudnn(Cudnn().pooling_backward(handle, state.pooling.get(), &kCudnnOne, state.y.get(), dy,
                                        state.y.get(), dy, state.x.get(), dx, &kCudnnZero,
                                        state.x.get(), dx),
               "cudnnPoolingBackward");
  });
}

}  // namespace

void RegisterPoolingCudnn(Registry& registry) {
  registry.AddImplementation("Pooling",
                             MakeCudnnImplementation<State>(Supports, Forward, Backward));
}

}  // namespace crema
