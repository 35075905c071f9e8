// Element-by-element work on a large tensor, seen as (outer, middle, inner), and small ones of
// `middle` elements that are repeated along the other two: slopes, scales and biases of channels.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/parallel_for.h"
#include "math/broadcast_shape.h"
#include "math/reduce.h"
#include "math/vectorize.h"

namespace crema {

namespace broadcast {

constexpr int64_t kGrain = 1 << 14;  // elements that pay for a thread
constexpr int64_t kRun = 1024;       // elements added in single precision, or a tile of columns

template <typename Op, typename T, typename... S>
CREMA_MULTIVERSION void OneValue(Op op, const T* x, const T* z, T* y, int64_t count, S... small) {
  for (int64_t i = 0; i < count; ++i) y[i] = op(x[i], z[i], small...);
}

template <typename Op, typename T, typename... S>
CREMA_MULTIVERSION void ManyValues(Op op, const T* x, const T* z, T* y, int64_t count,
                                   const S*... small) {
  for (int64_t i = 0; i < count; ++i) y[i] = op(x[i], z[i], small[i]...);
}

// The sum of op(a, b), in lanes so that additions do not wait for each other.
template <typename Op, typename T>
CREMA_MULTIVERSION T SumLanes(Op op, const T* a, const T* b, int64_t count) {
  constexpr int kLanes = 16;
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += op(a[i + lane], b[i + lane]);
  }
  T sum = 0;
  for (; i < count; ++i) sum += op(a[i], b[i]);
  for (T lane : lanes) sum += lane;
  return sum;
}

template <typename Op, typename T>
double SumRun(Op op, const T* a, const T* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i += kRun) {
    sum += static_cast<double>(SumLanes(op, a + i, b + i, std::min(kRun, count - i)));
  }
  return sum;
}

// Column sums of op(a, b) over the rows of a matrix, added to at most kRun totals.
template <typename Op, typename T>
CREMA_MULTIVERSION void AddColumns(Op op, const T* a, const T* b, int64_t rows, int64_t stride,
                                   int64_t columns, double* totals) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t m = 0; m < columns; ++m) {
      totals[m] += static_cast<double>(op(a[r * stride + m], b[r * stride + m]));
    }
  }
}

}  // namespace broadcast

// y = op(x, z, small[m]...) for every element, where m is its index in the middle. x, z and y are
// large and may be the same; op must not care about order. T is float or double.
template <typename Op, typename T, typename... S>
void Broadcast(int threads, const BroadcastShape& extent, Op op, const T* x, const T* z, T* y,
               const S*... small) {
  if (extent.count() == 0) return;
  if (extent.inner == 1) {
    const int64_t grain = std::max<int64_t>(1, broadcast::kGrain / extent.middle);
    ParallelFor(threads, extent.outer, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * extent.middle;
        broadcast::ManyValues(op, x + at, z + at, y + at, extent.middle, small...);
      }
    });
    return;
  }
  // Long rows are cut, so that a scalar too is worked on by all threads.
  const int64_t length = std::min(extent.inner, broadcast::kGrain);
  const int64_t cuts = (extent.inner + length - 1) / length;
  const int64_t grain = std::max<int64_t>(1, broadcast::kGrain / length);
  ParallelFor(threads, extent.outer * extent.middle * cuts, grain,
              [&](int64_t begin, int64_t end, int) {
                for (int64_t piece = begin; piece < end; ++piece) {
                  const int64_t row = piece / cuts;
                  const int64_t first = piece % cuts * length;
                  const int64_t m = row % extent.middle;
                  const int64_t at = row * extent.inner + first;
                  broadcast::OneValue(op, x + at, z + at, y + at,
                                      std::min(length, extent.inner - first), small[m]...);
                }
              });
}

// sums[m] += the sum of op(a, b) over all elements with middle index m. The same bits on any number
// of threads.
template <typename Op, typename T>
void AddBroadcastSums(int threads, const BroadcastShape& extent, Op op, const T* a, const T* b,
                      T* sums) {
  using broadcast::kGrain;
  using broadcast::kRun;
  if (extent.count() == 0) return;
  if (extent.middle == 1) {
    const int64_t count = extent.count();
    sums[0] += static_cast<T>(OrderedSum(threads, count, kGrain, [&](int64_t begin, int64_t end) {
      return broadcast::SumRun(op, a + begin, b + begin, end - begin);
    }));
    return;
  }
  const int64_t each = extent.outer * extent.inner;
  const int64_t grain = std::max<int64_t>(1, kGrain / each);
  ParallelFor(threads, extent.middle, grain, [&](int64_t begin, int64_t end, int) {
    std::array<double, kRun> totals;
    for (int64_t first = begin; first < end; first += kRun) {
      const int64_t columns = std::min(kRun, end - first);
      std::fill_n(totals.begin(), columns, 0.0);
      if (extent.inner == 1) {
        broadcast::AddColumns(op, a + first, b + first, extent.outer, extent.middle, columns,
                              totals.data());
      } else {
        for (int64_t row = 0; row < extent.outer; ++row) {
          for (int64_t m = 0; m < columns; ++m) {
            const int64_t at = (row * extent.middle + first + m) * extent.inner;
            totals[static_cast<size_t>(m)] += broadcast::SumRun(op, a + at, b + at, extent.inner);
          }
        }
      }
      for (int64_t m = 0; m < columns; ++m) {
        sums[first + m] += static_cast<T>(totals[static_cast<size_t>(m)]);
      }
    }
  });
}

}  // namespace crema
