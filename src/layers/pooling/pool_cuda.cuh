// Internal to the kernels of pooling.
#pragma once

#include "layers/pooling/pool_cuda.h"
#include "math/cuda/group_sums.cuh"
#include "math/cuda/windows.cuh"

namespace crema {

// Indices of the cells taken, in the form of PoolPlanes; -1 means none.
struct PoolIndex {
  void* data;
  bool small;      // uint8_t, else int32_t
  bool in_window;  // PoolPlanes::IndexIsInWindow

  CREMA_HOST_DEVICE int64_t Get(int64_t i) const {
    if (!small) return static_cast<const int32_t*>(data)[i];
    const uint8_t value = static_cast<const uint8_t*>(data)[i];
    return value == kNoIndex<uint8_t> ? -1 : value;
  }
  CREMA_HOST_DEVICE void Set(int64_t i, int64_t value) const {
    if (small) {
      static_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(value);
    } else {
      static_cast<int32_t*>(data)[i] = static_cast<int32_t>(value);
    }
  }
  // Returns the index of a cell of a window.
  template <int kMost>
  CREMA_HOST_DEVICE int64_t Of(const SlidingWindow<kMost>& w, const Place<kMost>& window,
                               const Place<kMost>& cell) const {
    if (!in_window) return w.CellNumber(cell);
    int64_t index = 0;
    for (int a = 0; a < w.axes(); ++a) {
      index = index * w.axis[a].kernel + cell.at[a] - w.axis[a].Start(window.at[a]);
    }
    return index;
  }
};

inline PoolIndex MakePoolIndex(const PoolPlanes& pool, const void* data) {
  return {const_cast<void*>(data), pool.IndexType() == DType::kU8, pool.IndexIsInWindow()};
}

// Coordinates of element i of x or of y in memory. `lanes` planes form a group. The cells (or
// windows, `size` of them per plane) of a group are consecutive; each holds the elements of all
// planes side by side.
struct PoolElement {
  CREMA_HOST_DEVICE PoolElement(int64_t i, int64_t size, int64_t lanes) {
    const int64_t row = lanes == 1 ? i : Quotient(i, lanes);
    lane = i - row * lanes;
    group = Quotient(row, size);
    number = row - group * size;
  }
  // Returns the index of element 0 of the same plane in a blob of `other` elements per plane.
  CREMA_HOST_DEVICE int64_t Start(int64_t other, int64_t lanes) const {
    return group * other * lanes + lane;
  }

  int64_t group, lane;
  int64_t number;  // of the cell or window in its plane
};

// The elements that a thread computes: in channels last several neighbours, which share the window.
inline constexpr int kPoolLanes = 8;
inline int PoolLanes(int64_t lanes) { return lanes % kPoolLanes == 0 ? kPoolLanes : 1; }

// The part of a window inside the plane.
template <int kMost>
struct WindowCells {
  CREMA_HOST_DEVICE WindowCells(const SlidingWindow<kMost>& w, const Place<kMost>& window) {
    for (int a = 0; a < w.axes(); ++a) {
      begin.at[a] = w.axis[a].Begin(window.at[a]);
      end.at[a] = w.axis[a].End(window.at[a]);
      count *= end.at[a] > begin.at[a] ? end.at[a] - begin.at[a] : 0;
    }
  }
  // Returns the number in the plane of cell i of that part.
  CREMA_HOST_DEVICE int64_t Cell(const SlidingWindow<kMost>& w, int64_t i) const {
    int64_t cell = 0, scale = 1;
    for (int a = w.axes() - 1; a >= 0; --a) {
      const int64_t length = end.at[a] - begin.at[a];
      cell += (begin.at[a] + i % length) * scale;
      scale *= w.axis[a].in;
      i /= length;
    }
    return cell;
  }
  // Calls visit(number) for each cell.
  template <typename Visit>
  CREMA_HOST_DEVICE void For(const SlidingWindow<kMost>& w, const Visit& visit) const {
    ForBox(w.axes(), begin, end, [&](const Place<kMost>& cell) { visit(w.CellNumber(cell)); });
  }

  Place<kMost> begin, end;
  int64_t count = 1;
};

// Divisor of the sum over a window: its cells within plane and padding, its cells within the plane,
// or 1.
enum class PoolDivisor { kPadded, kInside, kOne };

inline PoolDivisor DivisorOf(const CudaPool& p) {
  if (!p.divide) return PoolDivisor::kOne;
  return p.pool.exclude_pad() ? PoolDivisor::kInside : PoolDivisor::kPadded;
}

template <int kMost>
CREMA_HOST_DEVICE float Divisor(const SlidingWindow<kMost>& w, PoolDivisor kind,
                                const Place<kMost>& window) {
  if (kind == PoolDivisor::kOne) return 1;
  float cells = 1;
  for (int a = 0; a < w.axes(); ++a) {
    const SlidingAxis& axis = w.axis[a];
    const int64_t at = window.at[a];
    cells *= static_cast<float>(kind == PoolDivisor::kInside ? axis.End(at) - axis.Begin(at)
                                                             : axis.Padded(at));
  }
  return cells;
}

// Returns true if a window is large enough for a team. In channels last, neighbouring threads read
// neighbouring elements without teams.
template <int kMost>
bool IsTeamWindow(const CudaPool& p, const SlidingWindow<kMost>& w) {
  return w.kernel_size > Team::kThreads && p.lanes == 1;
}

// Calls result(element of y, its window, sum of x, sum of x^2) on the device for each element of y.
// `result` may write.
template <typename T, int kMost, typename Result>
static void ForWindowSums(const CudaPool& p, const SlidingWindow<kMost>& sliding, const T* x,
                          const Result& result) {
  const SlidingWindow<kMost> w = sliding;
  const int64_t outputs = p.planes * w.out_size, lanes = p.lanes;
  if (!IsTeamWindow(p, w)) {
    ForElements(p.queue, "PoolSums", outputs, [=] CREMA_HOST_DEVICE(int64_t i) {
      const PoolElement at(i, w.out_size, lanes);
      const T* plane = x + at.Start(w.in_size, lanes);
      float sum = 0, squares = 0;
      WindowCells<kMost>(w, w.WindowAt(at.number)).For(w, [&](int64_t cell) {
        const float value = ToFloat(plane[cell * lanes]);
        sum += value;
        squares += value * value;
      });
      result(i, at.number, sum, squares);
    });
    return;
  }
  ForTeams(p.queue, "PoolSums", outputs, [=] CREMA_HOST_DEVICE(const Team& team, int64_t i) {
    const T* plane = x + i / w.out_size * w.in_size;
    const WindowCells<kMost> cells(w, w.WindowAt(i % w.out_size));
    const float sum =
        team.Sum(cells.count, [&](int64_t j) { return ToFloat(plane[cells.Cell(w, j)]); });
    const float squares = team.Sum(cells.count, [&](int64_t j) {
      const float value = ToFloat(plane[cells.Cell(w, j)]);
      return value * value;
    });
    team.For(1, [&](int64_t) { result(i, i % w.out_size, sum, squares); });
  });
}

}  // namespace crema
