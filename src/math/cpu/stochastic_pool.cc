#include <algorithm>

#include "math/pool.h"

namespace crema {
namespace {

// Calls visit(output, oh, ow) for each window of one plane.
template <typename Visit>
void ForWindows(const PoolWindow& w, Visit&& visit) {
  for (int64_t oh = 0; oh < w.h.out; ++oh) {
    for (int64_t ow = 0; ow < w.w.out; ++ow) visit(oh * w.w.out + ow, oh, ow);
  }
}

// Calls visit(cell) for each cell of the plane inside a window, until it returns that it is done.
template <typename Visit>
void ForCells(const PoolWindow& w, int64_t oh, int64_t ow, Visit&& visit) {
  for (int64_t ih = w.h.Begin(oh); ih < w.h.End(oh); ++ih) {
    for (int64_t iw = w.w.Begin(ow); iw < w.w.End(ow); ++iw) {
      if (visit(ih * w.w.in + iw)) return;
    }
  }
}

struct Sums {
  double values = 0;
  double squares = 0;
};
template <typename T>
Sums WindowSums(const PoolWindow& w, int64_t oh, int64_t ow, const T* x) {
  Sums sums;
  ForCells(w, oh, ow, [&](int64_t cell) {
    sums.values += x[cell];
    sums.squares += static_cast<double>(x[cell]) * x[cell];
    return false;
  });
  return sums;
}

}  // namespace

template <typename T, typename Index>
void StochasticPool(const PoolWindow& w, int64_t planes, const RandomStream& random,
                    int64_t first_element, const T* x, T* y, Index* index) {
  for (int64_t p = 0; p < planes; ++p, x += w.InSize()) {
    ForWindows(w, [&](int64_t o, int64_t oh, int64_t ow) {
      const int64_t element = p * w.OutSize() + o;
      const double total = WindowSums(w, oh, ow, x).values;
      const double threshold =
          random.Uniform(static_cast<uint64_t>(first_element + element)) * total;
      double running = 0;
      int64_t drawn = -1;
      ForCells(w, oh, ow, [&](int64_t cell) {
        running += x[cell];
        if (x[cell] > 0) drawn = cell;  // the last one, if rounding keeps the sum too low
        return running > threshold;
      });
      y[element] = drawn < 0 ? T(0) : x[drawn];
      if (index == nullptr) return;
      const int64_t row = drawn / w.w.in - w.h.Start(oh);
      const int64_t column = drawn % w.w.in - w.w.Start(ow);
      index[element] = drawn < 0 ? kNoIndex<Index> : static_cast<Index>(row * w.w.kernel + column);
    });
  }
}

template <typename T>
void WeightedPool(const PoolWindow& w, int64_t planes, const T* x, T* y) {
  for (int64_t p = 0; p < planes; ++p, x += w.InSize(), y += w.OutSize()) {
    ForWindows(w, [&](int64_t o, int64_t oh, int64_t ow) {
      const Sums sums = WindowSums(w, oh, ow, x);
      y[o] = sums.values > 0 ? static_cast<T>(sums.squares / sums.values) : T(0);
    });
  }
}

template <typename T>
void WeightedPoolBackward(const PoolWindow& w, int64_t planes, const T* x, const T* dy, T* dx) {
  std::fill(dx, dx + planes * w.InSize(), T(0));
  for (int64_t p = 0; p < planes; ++p, x += w.InSize(), dx += w.InSize(), dy += w.OutSize()) {
    ForWindows(w, [&](int64_t o, int64_t oh, int64_t ow) {
      const Sums sums = WindowSums(w, oh, ow, x);
      if (!(sums.values > 0)) return;
      const double mean = sums.squares / sums.values;
      ForCells(w, oh, ow, [&](int64_t cell) {
        dx[cell] += static_cast<T>(dy[o] * (2 * x[cell] - mean) / sums.values);
        return false;
      });
    });
  }
}

template void StochasticPool(const PoolWindow&, int64_t, const RandomStream&, int64_t, const float*,
                             float*, uint8_t*);
template void StochasticPool(const PoolWindow&, int64_t, const RandomStream&, int64_t, const float*,
                             float*, int32_t*);
template void StochasticPool(const PoolWindow&, int64_t, const RandomStream&, int64_t,
                             const double*, double*, uint8_t*);
template void StochasticPool(const PoolWindow&, int64_t, const RandomStream&, int64_t,
                             const double*, double*, int32_t*);
template void WeightedPool(const PoolWindow&, int64_t, const float*, float*);
template void WeightedPool(const PoolWindow&, int64_t, const double*, double*);
template void WeightedPoolBackward(const PoolWindow&, int64_t, const float*, const float*, float*);
template void WeightedPoolBackward(const PoolWindow&, int64_t, const double*, const double*,
                                   double*);

}  // namespace crema
