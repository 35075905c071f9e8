// Sliding windows over any number of axes, for kernels of convolution and pooling.
#pragma once

#include <array>
#include <span>

#include "core/shape.h"
#include "math/conv_window.h"
#include "math/cuda/launch.cuh"
#include "math/pool_nd.h"

namespace crema {

struct SlidingAxis : PoolAxis {
  int64_t dilation = 1;

  CREMA_HOST_DEVICE int64_t Reach() const { return dilation * (kernel - 1) + 1; }
  // The first and last window that covers a cell.
  CREMA_HOST_DEVICE int64_t FirstWindow(int64_t cell) const {
    const int64_t before = cell + pad - Reach() + 1;
    return before <= 0 ? 0 : Quotient(before + stride - 1, stride);
  }
  CREMA_HOST_DEVICE int64_t EndOfWindows(int64_t cell) const {
    const int64_t end = Quotient(cell + pad, stride) + 1;
    return end < out ? end : out;
  }
};

template <int kMost>
struct Place {
  int64_t at[kMost];
};

// Divides `number` by the size of an axis, and returns the remainder.
CREMA_HOST_DEVICE inline int64_t NextPlace(int64_t size, int64_t* number) {
  const int64_t quotient = Quotient(*number, size);
  const int64_t place = *number - quotient * size;
  *number = quotient;
  return place;
}

// Calls visit(place) for each place from `begin` to before `end`, the last axis fastest.
template <int kMost, typename Visit>
CREMA_HOST_DEVICE void ForBox(int axes, const Place<kMost>& begin, const Place<kMost>& end,
                              const Visit& visit) {
  Place<kMost> place;
  for (int a = 0; a < axes; ++a) {
    if (begin.at[a] >= end.at[a]) return;
    place.at[a] = begin.at[a];
  }
  while (true) {
    visit(place);
    int a = axes - 1;
    for (; a >= 0; --a) {
      if (++place.at[a] < end.at[a]) break;
      place.at[a] = begin.at[a];
    }
    if (a < 0) return;
  }
}

// At most kMost axes, and exactly that many where kMost < Shape::kMaxAxes, so that loops over them
// unroll. Cells, windows and kernel elements are numbered with the last axis fastest.
template <int kMost>
struct SlidingWindow {
  int given = kMost;
  int64_t in_size = 1, out_size = 1, kernel_size = 1;
  SlidingAxis axis[kMost];

  CREMA_HOST_DEVICE int axes() const { return kMost < Shape::kMaxAxes ? kMost : given; }

  CREMA_HOST_DEVICE Place<kMost> CellAt(int64_t cell) const {
    Place<kMost> place;
    for (int a = axes() - 1; a >= 0; --a) place.at[a] = NextPlace(axis[a].in, &cell);
    return place;
  }
  CREMA_HOST_DEVICE Place<kMost> WindowAt(int64_t window) const {
    Place<kMost> place;
    for (int a = axes() - 1; a >= 0; --a) place.at[a] = NextPlace(axis[a].out, &window);
    return place;
  }
  CREMA_HOST_DEVICE int64_t CellNumber(const Place<kMost>& cell) const {
    int64_t number = 0;
    for (int a = 0; a < axes(); ++a) number = number * axis[a].in + cell.at[a];
    return number;
  }

  // Calls visit(k, cell) for each kernel element of a window; a cell of -1 is in the padding.
  template <typename Visit>
  CREMA_HOST_DEVICE void ForKernel(int64_t window, const Visit& visit) const {
    const Place<kMost> place = WindowAt(window);
    Place<kMost> begin, end;
    for (int a = 0; a < axes(); ++a) {
      begin.at[a] = 0;
      end.at[a] = axis[a].kernel;
    }
    int64_t k = 0;
    ForBox(axes(), begin, end, [&](const Place<kMost>& element) {
      int64_t cell = 0;
      bool inside = true;
      for (int a = 0; a < axes(); ++a) {
        const int64_t at = axis[a].Start(place.at[a]) + element.at[a] * axis[a].dilation;
        inside = inside && at >= 0 && at < axis[a].in;
        cell = cell * axis[a].in + at;
      }
      visit(k++, inside ? cell : -1);
    });
  }

  // Calls visit(k, window) for each kernel element that lies on a cell, with the window of that
  // element.
  template <typename Visit>
  CREMA_HOST_DEVICE void ForViews(int64_t cell, const Visit& visit) const {
    const Place<kMost> place = CellAt(cell);
    ForWindowsOver(place, [&](int64_t number, const Place<kMost>& window) {
      int64_t k = 0;
      bool on_cell = true;
      for (int a = 0; a < axes(); ++a) {
        const int64_t offset = place.at[a] - axis[a].Start(window.at[a]);
        const int64_t element = axis[a].dilation == 1 ? offset : offset / axis[a].dilation;
        on_cell = on_cell && element * axis[a].dilation == offset;
        k = k * axis[a].kernel + element;
      }
      if (on_cell) visit(k, number);
    });
  }

  // Calls visit(number, window) for each window that covers a cell.
  template <typename Visit>
  CREMA_HOST_DEVICE void ForWindowsOver(const Place<kMost>& cell, const Visit& visit) const {
    Place<kMost> begin, end;
    for (int a = 0; a < axes(); ++a) {
      begin.at[a] = axis[a].FirstWindow(cell.at[a]);
      end.at[a] = axis[a].EndOfWindows(cell.at[a]);
    }
    ForBox(axes(), begin, end, [&](const Place<kMost>& window) {
      int64_t number = 0;
      for (int a = 0; a < axes(); ++a) number = number * axis[a].out + window.at[a];
      visit(number, window);
    });
  }
};

inline SlidingAxis SlidingAxisOf(const ConvWindow& w, size_t a) {
  return {{w.in[a], w.out[a], w.kernel[a], w.stride[a], w.pad[a]}, w.dilation[a]};
}
inline SlidingAxis SlidingAxisOf(const PoolWindowNd& w, size_t a) { return {w.axes[a]}; }
inline size_t AxesOf(const ConvWindow& w) { return static_cast<size_t>(w.axes); }
inline size_t AxesOf(const PoolWindowNd& w) { return static_cast<size_t>(w.size); }

// Prepends axes of one cell if there are fewer than kMost and that many are required.
template <int kMost, typename Window>
SlidingWindow<kMost> MakeSlidingWindow(const Window& from) {
  SlidingWindow<kMost> made;
  const int axes = static_cast<int>(AxesOf(from));
  const int ones = kMost < Shape::kMaxAxes ? kMost - axes : 0;
  made.given = ones + axes;
  for (int a = 0; a < made.given; ++a) {
    made.axis[a] = a < ones ? SlidingAxis{{.in = 1, .out = 1}}
                            : SlidingAxisOf(from, static_cast<size_t>(a - ones));
    made.in_size *= made.axis[a].in;
    made.out_size *= made.axis[a].out;
    made.kernel_size *= made.axis[a].kernel;
  }
  return made;
}

// Calls body(SlidingWindow<kMost>) with the smallest kMost that fits.
template <typename Window, typename Body>
void WithSlidingWindow(const Window& window, const Body& body) {
  if (AxesOf(window) <= 2) return body(MakeSlidingWindow<2>(window));
  if (AxesOf(window) == 3) return body(MakeSlidingWindow<3>(window));
  body(MakeSlidingWindow<Shape::kMaxAxes>(window));
}

}  // namespace crema
