#include "math/pool_nd.h"

#include <algorithm>
#include <cfloat>

#include "core/error.h"

namespace crema {
namespace {

using Place = std::array<int64_t, Shape::kMaxAxes>;

// Calls visit(output, position of the output) for each window of a block.
template <typename Visit>
void ForWindows(const PoolWindowNd& w, Visit&& visit) {
  Place place{};
  const int64_t count = w.OutSize();
  for (int64_t o = 0; o < count; ++o) {
    visit(o, place);
    for (int a = w.size - 1; a >= 0; --a) {
      const auto at = static_cast<size_t>(a);
      if (++place[at] < w.axes[at].out) break;
      place[at] = 0;
    }
  }
}

// Calls visit(first cell, count) for each run of cells of a window, in their order, until it
// returns false.
template <typename Visit>
void ForRuns(const PoolWindowNd& w, const Place& place, Visit&& visit) {
  const auto last = static_cast<size_t>(w.size - 1);
  Place begin{}, end{};
  for (size_t a = 0; a <= last; ++a) {
    begin[a] = w.axes[a].Begin(place[a]);
    end[a] = w.axes[a].End(place[a]);
    if (begin[a] >= end[a]) return;
  }
  Place cell = begin;
  while (true) {
    int64_t first = 0;
    for (size_t a = 0; a <= last; ++a) first = first * w.axes[a].in + cell[a];
    if (!visit(first, end[last] - begin[last])) return;
    int a = static_cast<int>(last) - 1;
    for (; a >= 0; --a) {
      const auto at = static_cast<size_t>(a);
      if (++cell[at] < end[at]) break;
      cell[at] = begin[at];
    }
    if (a < 0) return;
  }
}

// Calls visit(cell) for each cell of a window.
template <typename Visit>
void ForCells(const PoolWindowNd& w, const Place& place, Visit&& visit) {
  ForRuns(w, place, [&](int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; ++i) visit(i);
    return true;
  });
}

double Divisor(const PoolWindowNd& w, bool exclude_pad, const Place& place) {
  double cells = 1;
  for (size_t a = 0; a < static_cast<size_t>(w.size); ++a) {
    const PoolAxis& axis = w.axes[a];
    cells *= static_cast<double>(exclude_pad ? axis.End(place[a]) - axis.Begin(place[a])
                                             : axis.Padded(place[a]));
  }
  return cells;
}

struct Sums {
  double values = 0;
  double squares = 0;
};
template <typename T>
Sums WindowSums(const PoolWindowNd& w, const Place& place, const T* x) {
  Sums sums;
  ForCells(w, place, [&](int64_t i) {
    sums.values += x[i];
    sums.squares += static_cast<double>(x[i]) * x[i];
  });
  return sums;
}

// Returns the cell that contains a share of the sum of a window; -1: no cell is positive.
template <typename T>
int64_t DrawCell(const PoolWindowNd& w, const Place& place, const T* x, double share) {
  const double threshold = share * WindowSums(w, place, x).values;
  double running = 0;
  int64_t drawn = -1;
  ForRuns(w, place, [&](int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; ++i) {
      running += x[i];
      if (x[i] > 0) drawn = i;  // the last one, if rounding keeps the sum too low
      if (running > threshold) return false;
    }
    return true;
  });
  return drawn;
}

}  // namespace

int64_t PoolWindowNd::InSize() const {
  int64_t cells = 1;
  for (int a = 0; a < size; ++a) cells *= axes[static_cast<size_t>(a)].in;
  return cells;
}

int64_t PoolWindowNd::OutSize() const {
  int64_t cells = 1;
  for (int a = 0; a < size; ++a) cells *= axes[static_cast<size_t>(a)].out;
  return cells;
}

PoolWindow PoolWindowNd::Plane() const {
  CREMA_CHECK(size == 1 || size == 2);
  if (size == 2) return {axes[0], axes[1]};
  return {{.in = 1, .out = 1, .kernel = 1, .stride = 1, .pad = 0}, axes[0]};
}

template <typename T>
void MaxPoolNd(const PoolWindowNd& w, int64_t blocks, const T* x, T* y, int32_t* index) {
  const int64_t in = w.InSize(), out = w.OutSize();
  for (int64_t b = 0; b < blocks; ++b, x += in, y += out) {
    ForWindows(w, [&](int64_t o, const Place& place) {
      T best = static_cast<T>(-FLT_MAX);
      int64_t cell = -1;
      ForCells(w, place, [&](int64_t i) {
        if (x[i] > best) {
          best = x[i];
          cell = i;
        }
      });
      y[o] = best;
      if (index != nullptr) index[b * out + o] = static_cast<int32_t>(cell);
    });
  }
}

template <typename T>
void StochasticPoolNd(const PoolWindowNd& w, int64_t blocks, const RandomStream& random,
                      int64_t first_element, const T* x, T* y, int32_t* index) {
  const int64_t in = w.InSize(), out = w.OutSize();
  for (int64_t b = 0; b < blocks; ++b, x += in, y += out) {
    ForWindows(w, [&](int64_t o, const Place& place) {
      const int64_t element = b * out + o;
      const double share = random.Uniform(static_cast<uint64_t>(first_element + element));
      const int64_t cell = DrawCell(w, place, x, share);
      y[o] = cell < 0 ? T(0) : x[cell];
      if (index != nullptr) index[element] = static_cast<int32_t>(cell);
    });
  }
}

template <typename T>
void OneCellBackwardNd(const PoolWindowNd& w, int64_t blocks, const int32_t* index, const T* dy,
                       T* dx) {
  const int64_t in = w.InSize(), out = w.OutSize();
  std::fill(dx, dx + blocks * in, T(0));
  for (int64_t o = 0; o < blocks * out; ++o) {
    if (index[o] >= 0) dx[o / out * in + index[o]] += dy[o];
  }
}

template <typename T>
void AveragePoolNd(const PoolWindowNd& w, bool exclude_pad, int64_t blocks, const T* x, T* y) {
  for (int64_t b = 0; b < blocks; ++b, x += w.InSize(), y += w.OutSize()) {
    ForWindows(w, [&](int64_t o, const Place& place) {
      double sum = 0;
      ForCells(w, place, [&](int64_t i) { sum += x[i]; });
      y[o] = static_cast<T>(sum / Divisor(w, exclude_pad, place));
    });
  }
}

template <typename T>
void AveragePoolNdBackward(const PoolWindowNd& w, bool exclude_pad, int64_t blocks, const T* dy,
                           T* dx) {
  std::fill(dx, dx + blocks * w.InSize(), T(0));
  for (int64_t b = 0; b < blocks; ++b, dx += w.InSize(), dy += w.OutSize()) {
    ForWindows(w, [&](int64_t o, const Place& place) {
      const T share = static_cast<T>(dy[o] / Divisor(w, exclude_pad, place));
      ForCells(w, place, [&](int64_t i) { dx[i] += share; });
    });
  }
}

template <typename T>
void WeightedPoolNd(const PoolWindowNd& w, int64_t blocks, const T* x, T* y) {
  for (int64_t b = 0; b < blocks; ++b, x += w.InSize(), y += w.OutSize()) {
    ForWindows(w, [&](int64_t o, const Place& place) {
      const Sums sums = WindowSums(w, place, x);
      y[o] = sums.values > 0 ? static_cast<T>(sums.squares / sums.values) : T(0);
    });
  }
}

template <typename T>
void WeightedPoolNdBackward(const PoolWindowNd& w, int64_t blocks, const T* x, const T* dy, T* dx) {
  std::fill(dx, dx + blocks * w.InSize(), T(0));
  for (int64_t b = 0; b < blocks; ++b, x += w.InSize(), dx += w.InSize(), dy += w.OutSize()) {
    ForWindows(w, [&](int64_t o, const Place& place) {
      const Sums sums = WindowSums(w, place, x);
      if (!(sums.values > 0)) return;
      const double mean = sums.squares / sums.values;
      ForCells(w, place, [&](int64_t i) {
        dx[i] += static_cast<T>(dy[o] * (2 * x[i] - mean) / sums.values);
      });
    });
  }
}

template void MaxPoolNd(const PoolWindowNd&, int64_t, const float*, float*, int32_t*);
template void StochasticPoolNd(const PoolWindowNd&, int64_t, const RandomStream&, int64_t,
                               const float*, float*, int32_t*);
template void OneCellBackwardNd(const PoolWindowNd&, int64_t, const int32_t*, const float*, float*);
template void AveragePoolNd(const PoolWindowNd&, bool, int64_t, const float*, float*);
template void AveragePoolNdBackward(const PoolWindowNd&, bool, int64_t, const float*, float*);
template void WeightedPoolNd(const PoolWindowNd&, int64_t, const float*, float*);
template void WeightedPoolNdBackward(const PoolWindowNd&, int64_t, const float*, const float*,
                                     float*);
template void MaxPoolNd(const PoolWindowNd&, int64_t, const double*, double*, int32_t*);
template void StochasticPoolNd(const PoolWindowNd&, int64_t, const RandomStream&, int64_t,
                               const double*, double*, int32_t*);
template void OneCellBackwardNd(const PoolWindowNd&, int64_t, const int32_t*, const double*,
                                double*);
template void AveragePoolNd(const PoolWindowNd&, bool, int64_t, const double*, double*);
template void AveragePoolNdBackward(const PoolWindowNd&, bool, int64_t, const double*, double*);
template void WeightedPoolNd(const PoolWindowNd&, int64_t, const double*, double*);
template void WeightedPoolNdBackward(const PoolWindowNd&, int64_t, const double*, const double*,
                                     double*);

}  // namespace crema
