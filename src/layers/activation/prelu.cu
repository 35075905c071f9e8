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
struct GpuPRelu {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    Bend(args.queue, Groups<kLast>(layer, args.inputs[0].shape()), args.x(), args.x(), args.w(),
         args.y());
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const GroupLayout groups = Groups<kLast>(layer, args.inputs[0].shape());
    if (args.dw() != nullptr) {
      double* scratch = ScratchCutter(args.scratch).Take<double>(GroupSumsScratch(groups));
      AddSlopeGradients(args.queue, groups, args.x(), args.dy(), scratch, args.dw());
    }
    if (args.dx() != nullptr) Bend(args.queue, groups, args.x(), args.dy(), args.w(), args.dx());
  }

  static size_t BackwardScratch(const OpDesc& query) {
    const GroupLayout groups = Groups<kLast>(query.layer, query.context.inputs[0].shape);
    return ScratchBytes<double>(GroupSumsScratch(groups)) + kScratchSlack;
  }
};

}  // namespace

void RegisterPReLUCuda(Registry& registry) {
  registry.AddImplementation("PReLU", InChannelsLast(CudaImplementation<GpuPRelu<true>>()));
  registry.AddImplementation("PReLU", CudaImplementation<GpuPRelu<false>>());
}

}  // namespace crema
