#include "math/softmax.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/parallel_for.h"
#include "math/fast_exp.h"
#include "math/vectorize.h"

namespace crema {
namespace {

// Neighbouring positions that are processed together, so that memory is read in order.
constexpr int64_t kTile = 128;
constexpr int kLanes = 16;
constexpr int64_t kGrain = 1 << 13;  // elements worth a thread

// Calls body(offset, length) for runs of at most kTile adjacent positions.
template <typename Body>
void ForEachTile(int threads, const SoftmaxSize& size, Body&& body) {
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, size.classes));
  ParallelFor(threads, size.outer * size.inner, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t at = begin; at < end;) {
      const int64_t column = at % size.inner;
      const int64_t length = std::min({kTile, size.inner - column, end - at});
      body(at / size.inner * size.classes * size.inner + column, length);
      at += length;
    }
  });
}

// kLog computes the logarithm.
template <bool kLog, typename T>
CREMA_MULTIVERSION void ForwardTile(const SoftmaxSize& size, const T* x, T* y, int64_t length) {
  std::array<T, kTile> top;
  std::array<T, kTile> sum;
  for (int64_t k = 0; k < length; ++k) top[k] = -std::numeric_limits<T>::infinity();
  for (int64_t k = 0; k < length; ++k) sum[k] = 0;
  for (int64_t c = 0; c < size.classes; ++c) {
    const T* row = x + c * size.inner;
    for (int64_t k = 0; k < length; ++k) top[k] = top[k] < row[k] ? row[k] : top[k];
  }
  for (int64_t c = 0; c < size.classes; ++c) {
    const T* from = x + c * size.inner;
    T* to = y + c * size.inner;
    for (int64_t k = 0; k < length; ++k) {
      const T power = FastExp(from[k] - top[k]);
      if (!kLog) to[k] = power;
      sum[k] += power;
    }
  }
  if (kLog) {
    for (int64_t k = 0; k < length; ++k) sum[k] = std::log(sum[k]);
  }
  for (int64_t c = 0; c < size.classes; ++c) {
    const T* from = x + c * size.inner;
    T* to = y + c * size.inner;
    for (int64_t k = 0; k < length; ++k) {
      to[k] = kLog ? from[k] - top[k] - sum[k] : to[k] / sum[k];
    }
  }
}

// Softmax of contiguous classes, in lanes, so that steps do not wait for each other. The last line
// of lanes is padded with classes whose power is 0. kLog computes the logarithm.
template <bool kLog, typename T>
CREMA_MULTIVERSION void ForwardRow(int64_t classes, const T* x, T* y) {
  constexpr T kLeast = -std::numeric_limits<T>::infinity();
  const int64_t whole = classes / kLanes * kLanes;
  T tops[kLanes], sums[kLanes] = {}, rest[kLanes];
  for (int l = 0; l < kLanes; ++l) rest[l] = whole + l < classes ? x[whole + l] : kLeast;
  for (int l = 0; l < kLanes; ++l) tops[l] = rest[l] == rest[l] ? rest[l] : kLeast;
  for (int64_t c = 0; c < whole; c += kLanes) {
    for (int l = 0; l < kLanes; ++l) tops[l] = tops[l] < x[c + l] ? x[c + l] : tops[l];
  }
  T top = kLeast;
  for (T lane : tops) top = top < lane ? lane : top;
  for (int64_t c = 0; c < whole; c += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      const T power = FastExp(x[c + l] - top);
      if (!kLog) y[c + l] = power;
      sums[l] += power;
    }
  }
  for (T& value : rest) value = FastExp(value - top);
  T sum = 0;
  for (T lane : sums) sum += lane;
  for (int64_t c = whole; c < classes; ++c) sum += rest[c - whole];
  if (kLog) {
    sum = std::log(sum);
    for (int64_t c = 0; c < classes; ++c) y[c] = x[c] - top - sum;
    return;
  }
  for (int64_t c = 0; c < whole; ++c) y[c] /= sum;
  for (int64_t c = whole; c < classes; ++c) y[c] = rest[c - whole] / sum;
}

// Softmax of kTile or fewer rows of few contiguous classes: a row alone would not fill a vector.
template <bool kLog, typename T>
void ForwardShortRows(int64_t classes, int64_t rows, const T* x, T* y) {
  std::array<T, kTile * kShortSoftmaxRow> tile;
  for (int64_t k = 0; k < rows; ++k) {
    for (int64_t c = 0; c < classes; ++c) tile[c * kTile + k] = x[k * classes + c];
  }
  ForwardTile<kLog>({1, classes, kTile}, tile.data(), tile.data(), rows);
  for (int64_t k = 0; k < rows; ++k) {
    for (int64_t c = 0; c < classes; ++c) y[k * classes + c] = tile[c * kTile + k];
  }
}

// The gradient of the logarithm.
template <typename T>
CREMA_MULTIVERSION void LogBackwardRow(int64_t classes, const T* y, const T* dy, T* dx) {
  T lanes[kLanes] = {};
  T sum = 0;
  const int64_t whole = classes / kLanes * kLanes;
  for (int64_t c = 0; c < whole; c += kLanes) {
    for (int l = 0; l < kLanes; ++l) lanes[l] += dy[c + l];
  }
  for (int64_t c = whole; c < classes; ++c) sum += dy[c];
  for (T lane : lanes) sum += lane;
  for (int64_t c = 0; c < classes; ++c) dx[c] = dy[c] - FastExp(y[c]) * sum;
}

template <typename T>
CREMA_MULTIVERSION void BackwardRow(int64_t classes, const T* y, const T* dy, T* dx) {
  T lanes[kLanes] = {};
  T dot = 0;
  const int64_t whole = classes / kLanes * kLanes;
  for (int64_t c = 0; c < whole; c += kLanes) {
    for (int l = 0; l < kLanes; ++l) lanes[l] += y[c + l] * dy[c + l];
  }
  for (int64_t c = whole; c < classes; ++c) dot += y[c] * dy[c];
  for (T lane : lanes) dot += lane;
  for (int64_t c = 0; c < classes; ++c) dx[c] = y[c] * (dy[c] - dot);
}

// Calls body(offset) for each row.
template <typename Body>
void ForEachRow(int threads, const SoftmaxSize& size, Body&& body) {
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, size.classes));
  ParallelFor(threads, size.outer, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) body(row * size.classes);
  });
}

// Calls body(offset, rows) for at most kTile rows at a time.
template <typename Body>
void ForEachShortTile(int threads, const SoftmaxSize& size, Body&& body) {
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, size.classes));
  ParallelFor(threads, size.outer, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; row += kTile) {
      body(row * size.classes, std::min(kTile, end - row));
    }
  });
}

template <typename T>
CREMA_MULTIVERSION void BackwardTile(const SoftmaxSize& size, const T* y, const T* dy, T* dx,
                                     int64_t length) {
  std::array<T, kTile> dot;
  for (int64_t k = 0; k < length; ++k) dot[k] = 0;
  for (int64_t c = 0; c < size.classes; ++c) {
    const int64_t offset = c * size.inner;
    for (int64_t k = 0; k < length; ++k) dot[k] += y[offset + k] * dy[offset + k];
  }
  for (int64_t c = 0; c < size.classes; ++c) {
    const int64_t offset = c * size.inner;
    for (int64_t k = 0; k < length; ++k) {
      dx[offset + k] = y[offset + k] * (dy[offset + k] - dot[k]);
    }
  }
}

template <typename T>
CREMA_MULTIVERSION void LogBackwardTile(const SoftmaxSize& size, const T* y, const T* dy, T* dx,
                                        int64_t length) {
  std::array<T, kTile> sum;
  for (int64_t k = 0; k < length; ++k) sum[k] = 0;
  for (int64_t c = 0; c < size.classes; ++c) {
    for (int64_t k = 0; k < length; ++k) sum[k] += dy[c * size.inner + k];
  }
  for (int64_t c = 0; c < size.classes; ++c) {
    const int64_t offset = c * size.inner;
    for (int64_t k = 0; k < length; ++k) {
      dx[offset + k] = dy[offset + k] - FastExp(y[offset + k]) * sum[k];
    }
  }
}

template <bool kLog, typename T>
void ForwardAll(int threads, const SoftmaxSize& size, const T* x, T* y) {
  if (size.inner == 1 && size.outer > 1 && size.classes <= kShortSoftmaxRow) {
    return ForEachShortTile(threads, size, [&](int64_t at, int64_t rows) {
      ForwardShortRows<kLog>(size.classes, rows, x + at, y + at);
    });
  }
  if (size.inner == 1) {
    return ForEachRow(threads, size,
                      [&](int64_t at) { ForwardRow<kLog>(size.classes, x + at, y + at); });
  }
  ForEachTile(threads, size, [&](int64_t offset, int64_t length) {
    ForwardTile<kLog>(size, x + offset, y + offset, length);
  });
}

}  // namespace

template <typename T>
void SoftmaxForward(int threads, const SoftmaxSize& size, const T* x, T* y) {
  ForwardAll<false>(threads, size, x, y);
}

template <typename T>
void LogSoftmaxForward(int threads, const SoftmaxSize& size, const T* x, T* y) {
  ForwardAll<true>(threads, size, x, y);
}

template <typename T>
void SoftmaxBackward(int threads, const SoftmaxSize& size, const T* y, const T* dy, T* dx) {
  if (size.inner == 1) {
    return ForEachRow(threads, size,
                      [&](int64_t at) { BackwardRow(size.classes, y + at, dy + at, dx + at); });
  }
  ForEachTile(threads, size, [&](int64_t offset, int64_t length) {
    BackwardTile(size, y + offset, dy + offset, dx + offset, length);
  });
}

template <typename T>
void LogSoftmaxBackward(int threads, const SoftmaxSize& size, const T* y, const T* dy, T* dx) {
  if (size.inner == 1) {
    return ForEachRow(threads, size,
                      [&](int64_t at) { LogBackwardRow(size.classes, y + at, dy + at, dx + at); });
  }
  ForEachTile(threads, size, [&](int64_t offset, int64_t length) {
    LogBackwardTile(size, y + offset, dy + offset, dx + offset, length);
  });
}

template void SoftmaxForward(int, const SoftmaxSize&, const float*, float*);
template void SoftmaxForward(int, const SoftmaxSize&, const double*, double*);
template void LogSoftmaxForward(int, const SoftmaxSize&, const float*, float*);
template void LogSoftmaxForward(int, const SoftmaxSize&, const double*, double*);
template void SoftmaxBackward(int, const SoftmaxSize&, const float*, const float*, float*);
template void SoftmaxBackward(int, const SoftmaxSize&, const double*, const double*, double*);
template void LogSoftmaxBackward(int, const SoftmaxSize&, const float*, const float*, float*);
template void LogSoftmaxBackward(int, const SoftmaxSize&, const double*, const double*, double*);

}  // namespace crema
