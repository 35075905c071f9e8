// DeformableConvolution: its sizes, and the points that it samples. See deformable_convolution.cc.
#pragma once

#include <cstdint>

#include "graph/layer.h"
#include "layers/convolution/conv_geometry.h"
#include "layers/sampling/grid_sample.h"

namespace crema {

// The places of filter elements in one or more images. A sample of `s` is a deformable group of an
// image, and its points are the filter elements at each output: K x outputs.
template <typename T>
struct DeformablePoints {
  CREMA_HOST_DEVICE GridTaps TapsAt(int64_t at) const {
    const int64_t outputs = out_height * out_width;
    const int64_t o = at % outputs, k = at / outputs % (s.out / outputs);
    const int64_t row = o / out_width * stride[0] - pad[0] + k / kernel_width * dilation[0];
    const int64_t column = o % out_width * stride[1] - pad[1] + k % kernel_width * dilation[1];
    const T* moved = offset + OffsetOf(at);
    const GridPlace places[GridTaps::kAxes] = {
        s.Near(0, {static_cast<double>(row) + AsDouble(moved[0]), 1}),
        s.Near(1, {static_cast<double>(column) + AsDouble(moved[outputs]), 1}),
    };
    return s.TapsOf(places);
  }

  // Returns the element of the offsets that moves point `at` down. The one that moves it to the
  // right lies out_height x out_width elements after it.
  CREMA_HOST_DEVICE int64_t OffsetOf(int64_t at) const {
    const int64_t outputs = out_height * out_width;
    return at / outputs * 2 * outputs + at % outputs;
  }

  GridSampling s;
  int64_t kernel_width, out_height, out_width;
  int64_t stride[2], pad[2], dilation[2];  // rows, columns
  const T* offset;
};

// Sizes of a DeformableConvolution. It consists of samples of the input, the columns, and of the
// pointwise convolution `products` of these.
struct DeformableGeometry {
  // Throws kInvalidArgument unless the inputs fit the parameters.
  DeformableGeometry(const Layer& layer, const Shape& x, const Shape& offset);

  int64_t ColumnImage() const { return products.InImage(); }
  int64_t OffsetImage() const { return 2 * deform_groups * conv.window.KernelSize() * Outputs(); }
  int64_t Outputs() const { return conv.window.OutSize(); }

  template <typename T>
  DeformablePoints<T> Points(int64_t images, const T* offset) const {
    const ConvWindow& w = conv.window;
    return {GridSampling(images * deform_groups, conv.in_channels / deform_groups, w.in[0], w.in[1],
                         w.KernelSize() * Outputs()),
            w.kernel[1],
            w.out[0],
            w.out[1],
            {w.stride[0], w.stride[1]},
            {w.pad[0], w.pad[1]},
            {w.dilation[0], w.dilation[1]},
            offset};
  }

  ConvGeometry conv;      // of the convolution without offsets
  ConvGeometry products;  // of the columns
  int64_t deform_groups;
};

}  // namespace crema
