// Samples of planes at points, and their gradients, on the CPU. Points have
//   GridSampling s;                        // planes, channels, and points of a sample
//   GridTaps TapsAt(int64_t at) const;     // of point `at` of all samples
// Layers differ in where their points come from. T is float or double.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/parallel_for.h"
#include "layers/sampling/grid_sample.h"

namespace crema {

// Returns the least number of points of a thread.
inline int64_t PointGrain(const GridSampling& s) {
  constexpr int64_t kGrain = 1 << 12;  // minimum multiplications per thread
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, s.channels * s.MostTaps()));
}

// y = x at the points: samples x channels x points.
template <typename Points, typename T>
void SamplePoints(int threads, const Points& points, const T* x, T* y) {
  const GridSampling& s = points.s;
  ParallelFor(threads, s.samples * s.out, PointGrain(s), [&](int64_t begin, int64_t end, int) {
    for (int64_t at = begin; at < end; ++at) {
      const GridTaps taps = points.TapsAt(at);
      const int64_t n = at / s.out;
      for (int64_t c = n * s.channels; c < (n + 1) * s.channels; ++c) {
        double sum = 0;
        for (int k = 0; k < taps.count; ++k) sum += taps.weight[k] * x[c * s.in + taps.offset[k]];
        y[c * s.out + at % s.out] = static_cast<T>(sum);
      }
    }
  });
}

// Writes the gradients of planes [begin, end) of x.
template <typename Points, typename T>
void SpreadToPlanes(const Points& points, int64_t begin, int64_t end, const T* dy, T* dx) {
  const GridSampling& s = points.s;
  std::fill(dx + begin * s.in, dx + end * s.in, T(0));
  while (begin < end) {
    const int64_t n = begin / s.channels, last = std::min(end, (n + 1) * s.channels);
    for (int64_t o = 0; o < s.out; ++o) {
      const GridTaps taps = points.TapsAt(n * s.out + o);
      for (int64_t c = begin; c < last; ++c) {
        const double gradient = dy[c * s.out + o];
        for (int k = 0; k < taps.count; ++k) {
          dx[c * s.in + taps.offset[k]] += static_cast<T>(taps.weight[k] * gradient);
        }
      }
    }
    begin = last;
  }
}

// dx = the gradient of x.
template <typename Points, typename T>
void SpreadToPlanes(int threads, const Points& points, const T* dy, T* dx) {
  constexpr int64_t kGrain = 1 << 12;  // minimum multiplications per thread
  const GridSampling& s = points.s;
  ParallelFor(threads, s.samples * s.channels,
              std::max<int64_t>(1, kGrain / std::max<int64_t>(1, s.out)),
              [&](int64_t begin, int64_t end, int) { SpreadToPlanes(points, begin, end, dy, dx); });
}

// Calls write(at, slopes) for each point, with the derivatives by its numbers: the one of the last
// axis of x first. Points run in parallel.
template <typename Points, typename T, typename Write>
void SlopesOfPoints(int threads, const Points& points, const T* x, const T* dy,
                    const Write& write) {
  const GridSampling& s = points.s;
  ParallelFor(threads, s.samples * s.out, PointGrain(s), [&](int64_t begin, int64_t end, int) {
    for (int64_t at = begin; at < end; ++at) {
      const GridTaps taps = points.TapsAt(at);
      double sums[GridTaps::kAxes] = {};
      const int64_t n = at / s.out;
      for (int64_t c = n * s.channels; c < (n + 1) * s.channels; ++c) {
        const double gradient = dy[c * s.out + at % s.out];
        for (int k = 0; k < taps.count; ++k) {
          const double part = gradient * x[c * s.in + taps.offset[k]];
          for (int a = 0; a < s.axes; ++a) sums[a] += part * taps.slope[k][a];
        }
      }
      write(at, sums);
    }
  });
}

}  // namespace crema
