// grid_points.h on the GPU. For the gradient of x, the taps of all points are sorted by their
// element, so that one thread adds all gradients of an element in one order.
#pragma once

#include "layers/arithmetic/picks.cuh"
#include "layers/gpu_implementation.h"
#include "layers/sampling/grid_sample.h"
#include "math/cuda/copy.cuh"

namespace crema {

// y = x at the points: samples x channels x points.
template <typename Points, typename T>
static void SamplePoints(const CudaQueue& queue, const Points& of, const T* x, T* y) {
  const Points points = of;
  ForElements(queue, "GridSample", of.s.samples * of.s.out, [=] CREMA_HOST_DEVICE(int64_t at) {
    const GridSampling& s = points.s;
    const GridTaps taps = points.TapsAt(at);
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
template <typename Points>
static void ListTaps(const CudaQueue& queue, const Points& of, PickKey* keys, float* weights) {
  const Points points = of;
  const int64_t most = of.s.MostTaps();
  ForElements(queue, "GridTaps", of.s.samples * of.s.out, [=] CREMA_HOST_DEVICE(int64_t at) {
    const GridTaps taps = points.TapsAt(at);
    for (int64_t k = 0; k < most; ++k) {
      const bool used = k < taps.count;
      const int64_t tap = at * most + k;
      keys[tap] = PickKey{used ? at / points.s.out * points.s.in + taps.offset[k] : -1, tap};
      weights[tap] = used ? static_cast<float>(taps.weight[k]) : 0;
    }
  });
}

template <typename T>
static void AddTaps(const CudaQueue& queue, const GridSampling& sampling, int64_t count,
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

// dx = the gradient of x.
template <typename Points, typename T>
static void SpreadToPlanes(const CudaQueue& queue, const Points& points,
                           std::span<std::byte> scratch, const T* dy, T* dx) {
  const GridSampling& s = points.s;
  const int64_t count = s.TapCount();
  ScratchCutter cutter(scratch);
  auto* const keys = cutter.Take<PickKey>(count);
  auto* const weights = cutter.Take<float>(count);
  ListTaps(queue, points, keys, weights);
  SortKeys(queue, count, keys);
  ZeroElements(queue, s.samples * s.channels * s.in, dx);
  AddTaps(queue, s, count, keys, weights, dy, dx);
}

// Returns the bytes of scratch of SpreadToPlanes.
inline size_t SpreadScratch(const GridSampling& s) {
  return ScratchBytes<PickKey>(s.TapCount()) + ScratchBytes<float>(s.TapCount()) + kScratchSlack;
}

// Calls write(at, slopes) for each point, with the derivatives by its numbers: the one of the last
// axis of x first.
template <typename Points, typename T, typename Write>
static void SlopesOfPoints(const CudaQueue& queue, const Points& of, const T* x, const T* dy,
                           const Write& write) {
  const Points points = of;
  ForElements(queue, "GridGradient", of.s.samples * of.s.out, [=] CREMA_HOST_DEVICE(int64_t at) {
    const GridSampling& s = points.s;
    const GridTaps taps = points.TapsAt(at);
    float sums[GridTaps::kAxes] = {0, 0, 0};
    const int64_t n = at / s.out;
    for (int64_t c = n * s.channels; c < (n + 1) * s.channels; ++c) {
      const float gradient = ToFloat(dy[c * s.out + at % s.out]);
      for (int k = 0; k < taps.count; ++k) {
        const float part = gradient * ToFloat(x[c * s.in + taps.offset[k]]);
        for (int a = 0; a < s.axes; ++a) sums[a] += part * static_cast<float>(taps.slope[k][a]);
      }
    }
    write(at, sums);
  });
}

}  // namespace crema
