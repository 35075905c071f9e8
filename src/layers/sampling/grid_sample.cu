// GridSample on the GPU; see grid_sample.cc. For the gradient of x, the taps of all points are
// sorted by their element, so that one thread adds all gradients of an element in one order.
#include "layers/arithmetic/picks.cuh"
#include "layers/gpu_implementation.h"
#include "layers/sampling/grid_sample.h"
#include "math/cuda/copy.cuh"

namespace crema {
namespace {

template <typename T>
void Sample(const CudaQueue& queue, const GridSampling& sampling, const T* grid, const T* x, T* y) {
  const GridSampling s = sampling;
  ForElements(queue, "GridSample", s.samples * s.out, [=] CREMA_HOST_DEVICE(int64_t at) {
    const GridTaps taps = s.TapsAt(grid + at * s.axes);
    const int64_t n = at / s.out;
    for (int64_t c = n * s.channels; c < (n + 1) * s.channels; ++c) {
      float sum = 0;
      for (int k = 0; k < taps.count; ++k) {
        sum += static_cast<float>(taps.weight[k]) * ToFloat(x[c * s.in + taps.offset[k]]);
      }
      y[c * s.out + at % s.out] = FromFloat<T>(sum);
    }
  });
}

// Writes the keys and weights of the taps of each point. A key names the plane's element in a blob
// of one channel.
template <typename T>
void ListTaps(const CudaQueue& queue, const GridSampling& sampling, const T* grid, PickKey* keys,
              float* weights) {
  const GridSampling s = sampling;
  const int64_t most = s.MostTaps();
  ForElements(queue, "GridTaps", s.samples * s.out, [=] CREMA_HOST_DEVICE(int64_t at) {
    const GridTaps taps = s.TapsAt(grid + at * s.axes);
    for (int64_t k = 0; k < most; ++k) {
      const bool used = k < taps.count;
      const int64_t tap = at * most + k;
      keys[tap] = PickKey{used ? at / s.out * s.in + taps.offset[k] : -1, tap};
      weights[tap] = used ? static_cast<float>(taps.weight[k]) : 0;
    }
  });
}

template <typename T>
void AddTaps(const CudaQueue& queue, const GridSampling& sampling, int64_t count,
             const PickKey* keys, const float* weights, const T* dy, T* dx) {
  const GridSampling s = sampling;
  const int64_t most = s.MostTaps();
  ForElements(queue, "GridSampleGradient", count * s.channels, [=] CREMA_HOST_DEVICE(int64_t i) {
    const PickRun run = RunAt(keys, count, i / s.channels);
    if (run.first == run.last) return;
    const int64_t c = i % s.channels, n = keys[run.first].offset / s.in;
    float sum = 0;
    for (int64_t k = run.first; k < run.last; ++k) {
      const int64_t tap = keys[k].pick;
      sum += weights[tap] * ToFloat(dy[(n * s.channels + c) * s.out + tap / most % s.out]);
    }
    dx[(n * s.channels + c) * s.in + keys[run.first].offset % s.in] = FromFloat<T>(sum);
  });
}

template <typename T>
void SlopesOfPoints(const CudaQueue& queue, const GridSampling& sampling, const T* grid, const T* x,
                    const T* dy, T* dgrid) {
  const GridSampling s = sampling;
  ForElements(queue, "GridGradient", s.samples * s.out, [=] CREMA_HOST_DEVICE(int64_t at) {
    const GridTaps taps = s.TapsAt(grid + at * s.axes);
    float sums[GridTaps::kAxes] = {0, 0, 0};
    const int64_t n = at / s.out;
    for (int64_t c = n * s.channels; c < (n + 1) * s.channels; ++c) {
      const float gradient = ToFloat(dy[c * s.out + at % s.out]);
      for (int k = 0; k < taps.count; ++k) {
        const float part = gradient * ToFloat(x[c * s.in + taps.offset[k]]);
        for (int a = 0; a < s.axes; ++a) sums[a] += part * static_cast<float>(taps.slope[k][a]);
      }
    }
    for (int a = 0; a < s.axes; ++a) dgrid[at * s.axes + a] = FromFloat<T>(sums[a]);
  });
}

int64_t TapCount(const GridSampling& s) { return s.samples * s.out * s.MostTaps(); }

struct GpuGridSample {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const GridSampling s(layer, args.inputs[0].shape(), args.inputs[1].shape());
    Sample(args.queue, s, args.x(1), args.x(), args.y());
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const Shape &x = args.inputs[0].shape(), &grid = args.inputs[1].shape();
    const GridSampling s(layer, x, grid);
    if (args.dx() != nullptr) {
      ScratchCutter cutter(args.scratch);
      auto* const keys = cutter.Take<PickKey>(TapCount(s));
      auto* const weights = cutter.Take<float>(TapCount(s));
      ListTaps(args.queue, s, args.x(1), keys, weights);
      SortKeys(args.queue, TapCount(s), keys);
      ZeroElements(args.queue, x.count(), args.dx());
      AddTaps(args.queue, s, TapCount(s), keys, weights, args.dy(), args.dx());
    }
    if (args.dx(1) == nullptr) return;
    if (s.taps == 1) return ZeroElements(args.queue, grid.count(), args.dx(1));
    SlopesOfPoints(args.queue, s, args.x(1), args.x(), args.dy(), args.dx(1));
  }

  static size_t BackwardScratch(const OpDesc& query) {
    const std::span<const BlobSpec> inputs = query.context.inputs;
    const int64_t count = TapCount(GridSampling(query.layer, inputs[0].shape, inputs[1].shape));
    return ScratchBytes<PickKey>(count) + ScratchBytes<float>(count) + kScratchSlack;
  }
};

}  // namespace

void RegisterGridSampleCuda(Registry& registry) {
  registry.AddImplementation("GridSample", CudaImplementation<GpuGridSample>());
}

}  // namespace crema
