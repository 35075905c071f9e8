// Reduction on the GPU; see reduction.cc.
#include <algorithm>
#include <cmath>

#include "crema.pb.h"
#include "layers/gpu_implementation.h"
#include "layers/layer_axis.h"
#include "math/cuda/broadcast.cuh"
#include "math/cuda/copy.cuh"

namespace crema {
namespace {

// Returns the rows as the middle axis and their elements as the inner one.
BroadcastShape SizesOf(const Layer& layer, const Shape& shape) {
  const int axis =
      LayerAxis(layer, shape, layer.param().reduction_param().axis(), "reduction_param.axis");
  return {1, shape.count(0, axis), shape.count(axis)};
}

// Terms of the sums of `length` elements.
struct Terms {
  Terms(const Layer& layer, int64_t length)
      : absolute(layer.param().reduction_param().operation() == ReductionParameter::ASUM),
        square(layer.param().reduction_param().operation() == ReductionParameter::SUMSQ),
        factor(layer.param().reduction_param().coeff()) {
    if (layer.param().reduction_param().operation() != ReductionParameter::MEAN) return;
    factor /= static_cast<float>(std::max<int64_t>(1, length));
  }
  bool absolute, square;
  float factor;
};

struct GpuReduction {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const BroadcastShape e = SizesOf(layer, args.inputs[0].shape());
    const Terms terms(layer, e.inner);
    const T* x = args.x();
    ZeroElements(args.queue, e.middle, args.y());
    AddBroadcastSums(
        args.queue, e,
        [=] CREMA_HOST_DEVICE(int64_t i) {
          const float value = ToFloat(x[i]);
          return terms.factor * (terms.absolute ? std::fabs(value)
                                 : terms.square ? value * value
                                                : value);
        },
        args.scratch, args.y());
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const BroadcastShape e = SizesOf(layer, args.input_grads[0].shape());
    const Terms terms(layer, e.inner);
    const int64_t length = e.inner;
    const T *x = args.x(), *dy = args.dy();
    T* dx = args.dx();
    ForElements(args.queue, "ReductionGradient", e.count(), [=] CREMA_HOST_DEVICE(int64_t i) {
      float slope = terms.factor * ToFloat(dy[i / length]);
      if (terms.absolute || terms.square) {  // otherwise x is not available
        const float value = ToFloat(x[i]);
        slope *= terms.square ? 2 * value : static_cast<float>((value > 0) - (value < 0));
      }
      dx[i] = FromFloat<T>(slope);
    });
  }

  static size_t ForwardScratch(const OpDesc& query) {
    return BroadcastSumScratch(SizesOf(query.layer, query.context.inputs[0].shape));
  }
};

}  // namespace

void RegisterReductionCuda(Registry& registry) {
  registry.AddImplementation("Reduction", CudaImplementation<GpuReduction>());
}

}  // namespace crema
