// Elementwise work on a large tensor, seen as (outer, middle, inner), and small ones of `middle`
// elements that are repeated along the other two axes: slopes, scales and biases of channels.
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

constexpr int64_t kGrain = 1 << 14;  // elements that justify a thread
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

// Returns the sum of op(a, b, small...), in several accumulators so that additions do not wait for
// each other.
template <typename Op, typename T, typename... S>
CREMA_MULTIVERSION T SumLanes(Op op, const T* a, const T* b, int64_t count, S... small) {
  constexpr int kLanes = 16;
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += op(a[i + lane], b[i + lane], small...);
    }
  }
  T sum = 0;
  for (; i < count; ++i) sum += op(a[i], b[i], small...);
  for (T lane : lanes) sum += lane;
  return sum;
}

template <typename Op, typename T, typename... S>
double SumRun(Op op, const T* a, const T* b, int64_t count, S... small) {
  double sum = 0;
  for (int64_t i = 0; i < count; i += kRun) {
    sum += static_cast<double>(SumLanes(op, a + i, b + i, std::min(kRun, count - i), small...));
  }
  return sum;
}

// Adds the column sums of op(a, b, small...) over the rows of a matrix to at most kRun totals.
template <typename Op, typename T, typename... S>
CREMA_MULTIVERSION void AddColumns(Op op, const T* a, const T* b, int64_t rows, int64_t stride,
                                   int64_t columns, double* totals, const S*... small) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t m = 0; m < columns; ++m) {
      totals[m] += static_cast<double>(op(a[r * stride + m], b[r * stride + m], small[m]...));
    }
  }
}

}  // namespace broadcast

// y = op(x, z, small[m]...) for every element, where m is its middle index. x, z and y are large
// and may be the same; op must not depend on the order. T is float or double.
template <typename Op, typename T, typename... S>
void Broadcast(int threads, const BroadcastShape& shape, Op op, const T* x, const T* z, T* y,
               const S*... small) {
  if (shape.count() == 0) return;
  if (shape.inner == 1) {
    const int64_t grain = std::max<int64_t>(1, broadcast::kGrain / shape.middle);
    ParallelFor(threads, shape.outer, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * shape.middle;
        broadcast::ManyValues(op, x + at, z + at, y + at, shape.middle, small...);
      }
    });
    return;
  }
  // Long rows are divided, so that all threads also work on a scalar's row.
  const int64_t length = std::min(shape.inner, broadcast::kGrain);
  const int64_t cuts = (shape.inner + length - 1) / length;
  const int64_t grain = std::max<int64_t>(1, broadcast::kGrain / length);
  ParallelFor(threads, shape.outer * shape.middle * cuts, grain,
              [&](int64_t begin, int64_t end, int) {
                for (int64_t piece = begin; piece < end; ++piece) {
                  const int64_t row = piece / cuts;
                  const int64_t first = piece % cuts * length;
                  const int64_t m = row % shape.middle;
                  const int64_t at = row * shape.inner + first;
                  broadcast::OneValue(op, x + at, z + at, y + at,
                                      std::min(length, shape.inner - first), small[m]...);
                }
              });
}

// sums[m] += the sum of op(a, b, small[m]...) over all elements with middle index m. The same bits
// for any number of threads.
template <typename Op, typename T, typename... S>
void AddBroadcastSums(int threads, const BroadcastShape& shape, Op op, const T* a, const T* b,
                      T* sums, const S*... small) {
  using broadcast::kGrain;
  using broadcast::kRun;
  if (shape.count() == 0) return;
  if (shape.middle == 1) {
    const int64_t count = shape.count();
    sums[0] += static_cast<T>(OrderedSum(threads, count, kGrain, [&](int64_t begin, int64_t end) {
      return broadcast::SumRun(op, a + begin, b + begin, end - begin, small[0]...);
    }));
    return;
  }
  const int64_t each = shape.outer * shape.inner;
  const int64_t grain = std::max<int64_t>(1, kGrain / each);
  ParallelFor(threads, shape.middle, grain, [&](int64_t begin, int64_t end, int) {
    std::array<double, kRun> totals;
    for (int64_t first = begin; first < end; first += kRun) {
      const int64_t columns = std::min(kRun, end - first);
      std::fill_n(totals.begin(), columns, 0.0);
      if (shape.inner == 1) {
        broadcast::AddColumns(op, a + first, b + first, shape.outer, shape.middle, columns,
                              totals.data(), (small + first)...);
      } else {
        for (int64_t row = 0; row < shape.outer; ++row) {
          for (int64_t m = 0; m < columns; ++m) {
            const int64_t at = (row * shape.middle + first + m) * shape.inner;
            totals[static_cast<size_t>(m)] +=
                broadcast::SumRun(op, a + at, b + at, shape.inner, small[first + m]...);
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
