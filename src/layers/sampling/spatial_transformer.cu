// SpatialTransformer on the GPU; see spatial_transformer.cc.
#include "layers/gpu_implementation.h"
#include "layers/sampling/grid_points.cuh"
#include "layers/sampling/spatial_transformer.h"

namespace crema {
namespace {

// dtheta = the sums over the points of an item. `slopes` is scratch.
template <typename T>
void ThetaGradient(const CudaQueue& queue, const AffinePoints<T>& of, const T* x, const T* dy,
                   float* slopes, T* dtheta) {
  const AffinePoints<T> points = of;
  SlopesOfPoints(queue, of, x, dy, [=] CREMA_HOST_DEVICE(int64_t at, const float* slope) {
    slopes[2 * at] = slope[0];
    slopes[2 * at + 1] = slope[1];
  });
  const int64_t given = of.numbers.given, out = of.s.out;
  ForTeams(queue, "ThetaGradient", of.s.samples * given,
           [=] CREMA_HOST_DEVICE(const Team& team, int64_t i) {
             const double sum = team.Sum(out, [&](int64_t o) {
               return points.Slope(slopes, i / given * out + o, i % given);
             });
             team.For(1, [&](int64_t) { dtheta[i] = FromFloat<T>(static_cast<float>(sum)); });
           });
}

struct GpuSpatialTransformer {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const AffinePoints<T> points(layer, args.inputs[0].shape(), args.outputs[0].shape(), args.x(1));
    SamplePoints(args.queue, points, args.x(), args.y());
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const AffinePoints<T> points(layer, args.inputs[0].shape(), args.output_grads[0].shape(),
                                 args.x(1));
    if (args.dx() != nullptr) {
      SpreadToPlanes(args.queue, points, args.scratch, args.dy(), args.dx());
    }
    if (args.dx(1) == nullptr) return;
    float* slopes = ScratchCutter(args.scratch).Take<float>(2 * points.s.samples * points.s.out);
    ThetaGradient(args.queue, points, args.x(), args.dy(), slopes, args.dx(1));
  }

  // The slopes take the place of the taps.
  static size_t BackwardScratch(const OpDesc& query) {
    return SpreadScratch(AffinePoints<float>(query.layer, query.context.inputs[0].shape,
                                             query.info.outputs[0].shape, nullptr)
                             .s);
  }
};

}  // namespace

void RegisterSpatialTransformerCuda(Registry& registry) {
  registry.AddImplementation("SpatialTransformer", CudaImplementation<GpuSpatialTransformer>());
}

}  // namespace crema
