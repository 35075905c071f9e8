// GridSample on the GPU; see grid_sample.cc.
#include "layers/gpu_implementation.h"
#include "layers/sampling/grid_points.cuh"

namespace crema {
namespace {

template <typename T>
void GridSlopes(const CudaQueue& queue, const GridPoints<T>& points, const T* x, const T* dy,
                T* dgrid) {
  const int axes = points.s.axes;
  SlopesOfPoints(queue, points, x, dy, [=] CREMA_HOST_DEVICE(int64_t at, const float* slopes) {
    for (int a = 0; a < axes; ++a) dgrid[at * axes + a] = FromFloat<T>(slopes[a]);
  });
}

struct GpuGridSample {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const GridSampling s(layer, args.inputs[0].shape(), args.inputs[1].shape());
    SamplePoints(args.queue, GridPoints<T>{s, args.x(1)}, args.x(), args.y());
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const Shape &x = args.inputs[0].shape(), &grid = args.inputs[1].shape();
    const GridPoints<T> points{GridSampling(layer, x, grid), args.x(1)};
    if (args.dx() != nullptr) {
      SpreadToPlanes(args.queue, points, args.scratch, args.dy(), args.dx());
    }
    if (args.dx(1) == nullptr) return;
    if (points.s.taps == 1) return ZeroElements(args.queue, grid.count(), args.dx(1));
    GridSlopes(args.queue, points, args.x(), args.dy(), args.dx(1));
  }

  static size_t BackwardScratch(const OpDesc& query) {
    const std::span<const BlobSpec> inputs = query.context.inputs;
    return SpreadScratch(GridSampling(query.layer, inputs[0].shape, inputs[1].shape));
  }
};

}  // namespace

void RegisterGridSampleCuda(Registry& registry) {
  registry.AddImplementation("GridSample", CudaImplementation<GpuGridSample>());
}

}  // namespace crema
