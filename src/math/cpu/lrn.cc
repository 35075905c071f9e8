#include "math/lrn.h"

#include <algorithm>
#include <cmath>

#include "math/cpu/lrn_power.h"
#include "math/vectorize.h"

namespace crema {
namespace {

constexpr int64_t kPixels = 256;  // processed at a time, so that they stay in the cache

// The running sums are doubles: adding and later subtracting a large value leaves enough precision
// for its small neighbours.
template <typename T>
[[gnu::always_inline]] inline void AddSquares(int64_t count, const T* x, double sign, double* sum) {
  for (int64_t i = 0; i < count; ++i) sum[i] += sign * x[i] * x[i];
}

[[gnu::always_inline]] inline void AddTo(int64_t count, double sign, const double* x, double* sum) {
  for (int64_t i = 0; i < count; ++i) sum[i] += sign * x[i];
}

template <typename T>
[[gnu::always_inline]] inline void AcrossLoop(const LrnShape& s, const LrnParam& p, const T* x,
                                              T* scale, T* y, double* sum) {
  const int64_t half = std::min((p.size - 1) / 2, s.channels);
  const double factor = p.alpha / static_cast<double>(p.size);
  const LrnExponent kind = LrnExponentOf(p.beta);
  for (int64_t first = 0; first < s.Plane(); first += kPixels) {
    const int64_t count = std::min(kPixels, s.Plane() - first);
    std::fill(sum, sum + count, 0.0);
    for (int64_t c = 0; c < std::min(half, s.channels); ++c) {
      AddSquares(count, x + c * s.Plane() + first, 1, sum);
    }
    for (int64_t c = 0; c < s.channels; ++c) {
      const int64_t head = c + half, tail = c - half - 1;
      if (head < s.channels) AddSquares(count, x + head * s.Plane() + first, 1, sum);
      if (tail >= 0) AddSquares(count, x + tail * s.Plane() + first, -1, sum);
      const int64_t at = c * s.Plane() + first;
      for (int64_t i = 0; i < count; ++i) scale[at + i] = static_cast<T>(p.k + factor * sum[i]);
      LrnPower(count, kind, p.beta, scale + at, y + at);
      for (int64_t i = 0; i < count; ++i) y[at + i] *= x[at + i];
    }
  }
}

// ratio = dy * y / scale, and dx = dy * scale^-beta; `dx` holds scale^-beta before.
template <typename T>
[[gnu::always_inline]] inline void RatioLoop(int64_t count, const T* x, const T* scale, const T* dy,
                                             T* dx, double* ratio) {
  for (int64_t i = 0; i < count; ++i) {
    dx[i] *= dy[i];
    ratio[i] = dx[i] * x[i] / scale[i];
  }
}

template <typename T>
[[gnu::always_inline]] inline void SubtractLoop(int64_t count, double factor, const double* sum,
                                                const T* x, T* dx) {
  for (int64_t i = 0; i < count; ++i) dx[i] -= static_cast<T>(factor * sum[i]) * x[i];
}

// dx = dy * scale^-beta - 2 alpha beta / size * x * sum over the window of dy * y / scale.
template <typename T>
[[gnu::always_inline]] inline void AcrossBackwardLoop(const LrnShape& s, const LrnParam& p,
                                                      const T* x, const T* scale, const T* dy,
                                                      T* dx, double* sum) {
  const int64_t half = std::min((p.size - 1) / 2, s.channels);
  const double factor = 2 * p.alpha * p.beta / static_cast<double>(p.size);
  const LrnExponent kind = LrnExponentOf(p.beta);
  double* ratio = sum + kPixels;
  for (int64_t first = 0; first < s.Plane(); first += kPixels) {
    const int64_t count = std::min(kPixels, s.Plane() - first);
    for (int64_t c = 0; c < s.channels; ++c) {
      const int64_t at = c * s.Plane() + first;
      LrnPower(count, kind, p.beta, scale + at, dx + at);
      RatioLoop(count, x + at, scale + at, dy + at, dx + at, ratio + c * kPixels);
    }
    std::fill(sum, sum + count, 0.0);
    for (int64_t c = -half; c < s.channels; ++c) {
      const int64_t head = c + half, tail = c - half - 1;
      if (head < s.channels) AddTo(count, 1, ratio + head * kPixels, sum);
      if (tail >= 0) AddTo(count, -1, ratio + tail * kPixels, sum);
      if (c < 0) continue;
      const int64_t at = c * s.Plane() + first;
      SubtractLoop(count, factor, sum, x + at, dx + at);
    }
  }
}

// sums = the sum of `values` over the window around each pixel. `rows` is a plane of scratch.
inline void BoxSums(const LrnShape& s, int64_t half, const double* values, double* rows,
                    double* sums) {
  for (int64_t h = 0; h < s.height; ++h) {
    const double* row = values + h * s.width;
    double sum = 0;
    for (int64_t w = -half; w < s.width; ++w) {
      if (w + half < s.width) sum += row[w + half];
      if (w - half - 1 >= 0) sum -= row[w - half - 1];
      if (w >= 0) rows[h * s.width + w] = sum;
    }
  }
  for (int64_t h = 0; h < s.height; ++h) {
    double* sum = sums + h * s.width;
    std::fill(sum, sum + s.width, 0.0);
    const int64_t end = std::min(s.height, h + half + 1);
    for (int64_t from = std::max<int64_t>(0, h - half); from < end; ++from) {
      AddTo(s.width, 1, rows + from * s.width, sum);
    }
  }
}

// A window wider than the plane gives the same sums as one that just covers it.
int64_t WithinHalf(const LrnShape& s, const LrnParam& p) {
  return std::min((p.size - 1) / 2, std::max(s.height, s.width));
}

// The same over any number of axes, one after the other; overwrites `values`.
void BoxSumsNd(const LrnShape& s, int64_t half, double* values, double* sums) {
  int64_t inner = s.Plane();
  for (int64_t size : s.spatial) {
    inner /= size;
    std::fill(sums, sums + s.Plane(), 0.0);
    for (int64_t first = 0; first < s.Plane(); first += size * inner) {
      for (int64_t i = 0; i < size; ++i) {
        const int64_t end = std::min(size, i + half + 1);
        for (int64_t from = std::max<int64_t>(0, i - half); from < end; ++from) {
          AddTo(inner, 1, values + first + from * inner, sums + first + i * inner);
        }
      }
    }
    std::copy(sums, sums + s.Plane(), values);
  }
}

// `values`, `sums` and a third plane lie one after the other.
void WindowSums(const LrnShape& s, const LrnParam& p, double* values, double* sums) {
  if (s.Plane() == 0) return;
  if (!s.spatial.empty()) return BoxSumsNd(s, std::min((p.size - 1) / 2, s.Plane()), values, sums);
  BoxSums(s, WithinHalf(s, p), values, sums + s.Plane(), sums);
}

double WithinFactor(const LrnShape& s, const LrnParam& p) {
  const size_t axes = s.spatial.empty() ? 2 : s.spatial.size();
  double cells = 1;
  for (size_t a = 0; a < axes; ++a) cells *= static_cast<double>(p.size);
  return p.alpha / cells;
}

CREMA_MULTIVERSION void Across(const LrnShape& s, const LrnParam& p, const float* x, float* scale,
                               float* y, double* scratch) {
  AcrossLoop(s, p, x, scale, y, scratch);
}
void Across(const LrnShape& s, const LrnParam& p, const double* x, double* scale, double* y,
            double* scratch) {
  AcrossLoop(s, p, x, scale, y, scratch);
}
CREMA_MULTIVERSION void AcrossBackward(const LrnShape& s, const LrnParam& p, const float* x,
                                       const float* scale, const float* dy, float* dx,
                                       double* scratch) {
  AcrossBackwardLoop(s, p, x, scale, dy, dx, scratch);
}
void AcrossBackward(const LrnShape& s, const LrnParam& p, const double* x, const double* scale,
                    const double* dy, double* dx, double* scratch) {
  AcrossBackwardLoop(s, p, x, scale, dy, dx, scratch);
}

}  // namespace

int64_t LrnAcrossScratch(const LrnShape& shape) { return (shape.channels + 1) * kPixels; }
int64_t LrnWithinScratch(const LrnShape& shape) { return 3 * shape.Plane(); }

template <typename T>
void LrnAcross(const LrnShape& s, const LrnParam& p, const T* x, T* scale, T* y, double* scratch) {
  Across(s, p, x, scale, y, scratch);
}

template <typename T>
void LrnAcrossBackward(const LrnShape& s, const LrnParam& p, const T* x, const T* scale,
                       const T* dy, T* dx, double* scratch) {
  AcrossBackward(s, p, x, scale, dy, dx, scratch);
}

template <typename T>
void LrnWithin(const LrnShape& s, const LrnParam& p, const T* x, T* scale, T* y, double* scratch) {
  double* squares = scratch;
  double* sums = scratch + s.Plane();
  const double factor = WithinFactor(s, p);
  for (int64_t c = 0; c < s.channels; ++c) {
    const int64_t at = c * s.Plane();
    for (int64_t i = 0; i < s.Plane(); ++i) {
      squares[i] = static_cast<double>(x[at + i]) * x[at + i];
    }
    WindowSums(s, p, squares, sums);
    for (int64_t i = 0; i < s.Plane(); ++i) scale[at + i] = static_cast<T>(1 + factor * sums[i]);
    LrnPower(s.Plane(), LrnExponentOf(p.beta), p.beta, scale + at, y + at);
    for (int64_t i = 0; i < s.Plane(); ++i) y[at + i] *= x[at + i];
  }
}

template <typename T>
void LrnWithinBackward(const LrnShape& s, const LrnParam& p, const T* x, const T* scale,
                       const T* dy, T* dx, double* scratch) {
  double* ratio = scratch;
  double* sums = scratch + s.Plane();
  for (int64_t c = 0; c < s.channels; ++c) {
    const int64_t at = c * s.Plane();
    LrnPower(s.Plane(), LrnExponentOf(p.beta), p.beta, scale + at, dx + at);
    RatioLoop(s.Plane(), x + at, scale + at, dy + at, dx + at, ratio);
    WindowSums(s, p, ratio, sums);
    SubtractLoop(s.Plane(), 2 * p.beta * WithinFactor(s, p), sums, x + at, dx + at);
  }
}

template void LrnAcross(const LrnShape&, const LrnParam&, const float*, float*, float*, double*);
template void LrnAcross(const LrnShape&, const LrnParam&, const double*, double*, double*, double*);
template void LrnAcrossBackward(const LrnShape&, const LrnParam&, const float*, const float*,
                                const float*, float*, double*);
template void LrnAcrossBackward(const LrnShape&, const LrnParam&, const double*, const double*,
                                const double*, double*, double*);
template void LrnWithin(const LrnShape&, const LrnParam&, const float*, float*, float*, double*);
template void LrnWithin(const LrnShape&, const LrnParam&, const double*, double*, double*, double*);
template void LrnWithinBackward(const LrnShape&, const LrnParam&, const float*, const float*,
                                const float*, float*, double*);
template void LrnWithinBackward(const LrnShape&, const LrnParam&, const double*, const double*,
                                const double*, double*, double*);

}  // namespace crema
