// SReLU on the GPU; see srelu.cc.
#include "crema.pb.h"
#include "layers/activation/srelu.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/group_sums.cuh"
#include "math/scratch.h"

namespace crema {
namespace {

// Returns the groups of elements that share their learned values.
GroupLayout Groups(const Layer& layer, const Shape& shape) {
  if (layer.param().srelu_param().channel_shared()) return {1, 1, 1, shape.count()};
  return {1, shape[0], shape[1], shape.count(2)};
}

// The learned values of all groups.
template <typename T>
struct SReluValues {
  CREMA_HOST_DEVICE SRelu<float> Of(int64_t group) const {
    return {ToFloat(tr[group]), ToFloat(ar[group]), ToFloat(tl[group]), ToFloat(al[group])};
  }
  const T *tr, *ar, *tl, *al;
};

template <typename T>
void Bend(const CudaQueue& queue, const GroupLayout& groups, const SReluValues<T>& values,
          const T* x, T* y) {
  ForElements(queue, "SRelu", groups.Count(), [=] CREMA_HOST_DEVICE(int64_t i) {
    y[i] = FromFloat<T>(values.Of(GroupOfElement(groups, i)).Value(ToFloat(x[i])));
  });
}

template <typename T>
void WriteGradient(const CudaQueue& queue, const GroupLayout& groups, const SReluValues<T>& values,
                   const T* x, const T* dy, T* dx) {
  ForElements(queue, "SReluGradient", groups.Count(), [=] CREMA_HOST_DEVICE(int64_t i) {
    const float slope = values.Of(GroupOfElement(groups, i)).Slope(ToFloat(x[i]));
    dx[i] = FromFloat<T>(slope * ToFloat(dy[i]));
  });
}

template <typename T>
void AddParameterGradients(const CudaQueue& queue, const GroupLayout& groups,
                           const SReluValues<T>& values, int parameter, const T* x, const T* dy,
                           double* scratch, T* gradient) {
  SumGroups(
      queue, groups,
      [=] CREMA_HOST_DEVICE(int64_t g, int64_t at) {
        const float slope = values.Of(g).Derivative(parameter, ToFloat(x[at]));
        return static_cast<double>(slope * ToFloat(dy[at]));
      },
      scratch,
      [=] CREMA_HOST_DEVICE(int64_t g, double sum) {
        gradient[g] = FromFloat<T>(ToFloat(gradient[g]) + static_cast<float>(sum));
      });
}

struct GpuSRelu {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    Bend(args.queue, Groups(layer, args.inputs[0].shape()), ValuesOf<T>(args), args.x(), args.y());
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const GroupLayout groups = Groups(layer, args.inputs[0].shape());
    const SReluValues<T> values = ValuesOf<T>(args);
    double* scratch = ScratchCutter(args.scratch).Take<double>(GroupSumsScratch(groups));
    for (int k = 0; k < 4; ++k) {
      T* gradient = args.dw(static_cast<size_t>(k));
      if (gradient == nullptr) continue;
      AddParameterGradients(args.queue, groups, values, k, args.x(), args.dy(), scratch, gradient);
    }
    if (args.dx() == nullptr) return;
    WriteGradient(args.queue, groups, values, args.x(), args.dy(), args.dx());
  }

  static size_t BackwardScratch(const OpDesc& query) {
    const GroupLayout groups = Groups(query.layer, query.context.inputs[0].shape);
    return ScratchBytes<double>(GroupSumsScratch(groups)) + kScratchSlack;
  }

 private:
  template <typename T, typename Args>
  static SReluValues<T> ValuesOf(const Args& args) {
    return {args.w(0), args.w(1), args.w(2), args.w(3)};
  }
};

}  // namespace

void RegisterSReLUCuda(Registry& registry) {
  registry.AddImplementation("SReLU", CudaImplementation<GpuSRelu>());
}

}  // namespace crema
