#include "math/im2col.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace crema {
namespace {

using Sizes = ConvWindow::Sizes;

// The outputs o of [0, out) for which o * stride + offset lies in [0, in).
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};
Range Inside(int64_t out, int64_t in, int64_t stride, int64_t offset) {
  const int64_t begin = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  const int64_t end = in <= offset ? 0 : (in - 1 - offset) / stride + 1;
  const int64_t first = std::min(begin, out);
  return {first, std::max(first, std::min(end, out))};
}

// For one plane and one kernel position, calls row(image_offset, column_offset, inside) for each
// row of outputs along the last axis; image_offset is that of output 0, and `inside` is empty if
// the row lies in the padding. Recursive over the other axes.
template <typename Row>
void VisitRows(const ConvWindow& w, const Sizes& k, int axis, int64_t image_offset,
               int64_t column_offset, bool padding, Row&& row) {
  const auto a = static_cast<size_t>(axis);
  const int64_t offset = k[a] * w.dilation[a] - w.pad[a];
  const Range inside = Inside(w.out[a], w.in[a], w.stride[a], offset);
  if (axis == w.axes - 1) {
    row(image_offset * w.in[a] + offset, column_offset * w.out[a], padding ? Range{} : inside);
    return;
  }
  for (int64_t o = 0; o < w.out[a]; ++o) {
    const bool out_of_image = padding || o < inside.begin || o >= inside.end;
    const int64_t position = out_of_image ? 0 : o * w.stride[a] + offset;
    VisitRows(w, k, axis + 1, image_offset * w.in[a] + position, column_offset * w.out[a] + o,
              out_of_image, row);
  }
}

// Calls row(image_offset, column_offset, inside) for all rows of one channel.
template <typename Row>
void VisitChannel(const ConvWindow& w, Row&& row) {
  Sizes k{};
  const int64_t kernel_size = w.KernelSize();
  const int64_t out_size = w.OutSize();
  for (int64_t n = 0; n < kernel_size; ++n) {
    VisitRows(w, k, 0, 0, 0, false, [&](int64_t image_offset, int64_t column_offset, Range inside) {
      row(image_offset, n * out_size + column_offset, inside);
    });
    for (int axis = w.axes - 1; axis >= 0; --axis) {  // next kernel position, last axis fastest
      const auto a = static_cast<size_t>(axis);
      if (++k[a] < w.kernel[a]) break;
      k[a] = 0;
    }
  }
}

}  // namespace

template <typename T>
void Im2col(const ConvWindow& w, int64_t channels, const T* image, T* columns) {
  const int64_t in_size = w.InSize();
  const int64_t out_size = w.OutSize();
  if (w.axes == 0) {
    std::copy_n(image, channels, columns);
    return;
  }
  const auto last = static_cast<size_t>(w.axes - 1);
  const int64_t width = w.out[last];
  const int64_t stride = w.stride[last];
  for (int64_t c = 0; c < channels; ++c, image += in_size, columns += w.KernelSize() * out_size) {
    VisitChannel(w, [&](int64_t from, int64_t to, Range inside) {
      T* y = columns + to;
      std::fill(y, y + inside.begin, T(0));
      if (stride == 1) {
        if (inside.end > inside.begin) {
          std::memcpy(y + inside.begin, image + from + inside.begin,
                      static_cast<size_t>(inside.end - inside.begin) * sizeof(T));
        }
      } else {
        for (int64_t o = inside.begin; o < inside.end; ++o) y[o] = image[from + o * stride];
      }
      std::fill(y + inside.end, y + width, T(0));
    });
  }
}

template <typename T>
void Col2im(const ConvWindow& w, int64_t channels, const T* columns, T* image) {
  const int64_t in_size = w.InSize();
  const int64_t out_size = w.OutSize();
  if (w.axes == 0) {
    std::copy_n(columns, channels, image);
    return;
  }
  const int64_t stride = w.stride[static_cast<size_t>(w.axes - 1)];
  std::fill(image, image + channels * in_size, T(0));
  for (int64_t c = 0; c < channels; ++c, image += in_size, columns += w.KernelSize() * out_size) {
    VisitChannel(w, [&](int64_t to, int64_t from, Range inside) {
      const T* x = columns + from;
      for (int64_t o = inside.begin; o < inside.end; ++o) image[to + o * stride] += x[o];
    });
  }
}

template void Im2col(const ConvWindow&, int64_t, const float*, float*);
template void Im2col(const ConvWindow&, int64_t, const double*, double*);
template void Col2im(const ConvWindow&, int64_t, const float*, float*);
template void Col2im(const ConvWindow&, int64_t, const double*, double*);

}  // namespace crema
