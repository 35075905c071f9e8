// PReLU on the GPU; see prelu.cc.
#include "crema.pb.h"
#include "layers/channels_last_implementation.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/group_sums.cuh"
#include "math/scratch.h"

namespace crema {
namespace {

// Returns the groups of elements that share a slope.
template <bool kLast>
GroupLayout Groups(const Layer& layer, const Shape& shape) {
  if (layer.param().prelu_param().channel_shared()) return {1, 1, 1, shape.count()};
  if (kLast) return ChannelsLastGroups(shape);
  return {1, shape[0], shape[1], shape.count(2)};
}

// Computes to = from where x > 0, slope * from elsewhere. Serves forward and backward.
template <typename T>
void Bend(const CudaQueue& queue, const GroupLayout& groups, const T* x, const T* from,
          const T* slopes, T* to) {
  ForElements(queue, "PReluBend", groups.Count(), [=] CREMA_HOST_DEVICE(int64_t i) {
    const float slope = ToFloat(slopes[GroupOfElement(groups, i)]);
    to[i] = ToFloat(x[i]) > 0 ? from[i] : FromFloat<T>(slope * ToFloat(from[i]));
  });
}

template <typename T>
void AddSlopeGradients(const CudaQueue& queue, const GroupLayout& groups, const T* x, const T* dy,
                       double* scratch, T* gradient) {
  SumGroups(
      queue, groups,
      [=] CREMA_HOST_DEVICE(int64_t, int64_t at) {
        const float value = ToFloat(x[at]);
        return value > 0 ? 0.0 : static_cast<double>(value * ToFloat(dy[at]));
      },
      scratch,
      [=] CREMA_HOST_DEVICE(int64_t g, double sum) {
        gradient[g] = FromFloat<T>(ToFloat(gradient[g]) + static_cast<float>(sum));
      });
}

template <bool kLast>
size_t BackwardScratch(const OpDesc& query) {
  const GroupLayout groups = Groups<kLast>(query.layer, query.context.inputs[0].shape);
  return ScratchBytes<double>(GroupSumsScratch(groups)) + kScratchSlack;
}

template <bool kLast>
void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const ConstTensorView& x = args.inputs[0];
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    Bend(BoundQueue(args.context), Groups<kLast>(layer, x.shape()), Elements<T>(x), Elements<T>(x),
         Elements<T>(args.learned[0]), Elements<T>(args.outputs[0]));
  });
}

template <bool kLast>
void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const GroupLayout groups = Groups<kLast>(layer, args.inputs[0].shape());
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const T* x = Elements<T>(args.inputs[0]);
    const T* dy = Elements<T>(args.output_grads[0]);
    if (!args.learned_grads[0].empty()) {
      double* scratch = ScratchCutter(args.scratch).Take<double>(GroupSumsScratch(groups));
      AddSlopeGradients(queue, groups, x, dy, scratch, Elements<T>(args.learned_grads[0]));
    }
    if (!args.input_grads[0].empty()) {
      Bend(queue, groups, x, dy, Elements<T>(args.learned[0]), Elements<T>(args.input_grads[0]));
    }
  });
}

template <bool kLast>
ImplementationPtr MakeImplementation() {
  return MakeCudaImplementation(ForwardOnGpu<kLast>, BackwardOnGpu<kLast>,
                                {.backward_scratch = BackwardScratch<kLast>});
}

}  // namespace

void RegisterPReLUCuda(Registry& registry) {
  registry.AddImplementation("PReLU", InChannelsLast(MakeImplementation<true>()));
  registry.AddImplementation("PReLU", MakeImplementation<false>());
}

}  // namespace crema
