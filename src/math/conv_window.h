// The filter window of a convolution with any number of spatial axes.
#pragma once

#include <array>
#include <cstdint>

#include "core/shape.h"

namespace crema {

struct ConvWindow {
  using Sizes = std::array<int64_t, Shape::kMaxAxes>;

  int axes = 0;  // spatial axes; only that many entries below count
  Sizes in{};
  Sizes out{};
  Sizes kernel{};
  Sizes stride{};
  Sizes pad{};
  Sizes dilation{};

  int64_t InSize() const { return Product(in); }
  int64_t OutSize() const { return Product(out); }
  int64_t KernelSize() const { return Product(kernel); }

  // The column matrix is the image itself: every kernel is 1, every stride 1, no padding.
  bool IsPointwise() const {
    for (size_t i = 0; i < static_cast<size_t>(axes); ++i) {
      if (kernel[i] != 1 || stride[i] != 1 || pad[i] != 0) return false;
    }
    return true;
  }

 private:
  int64_t Product(const Sizes& sizes) const {
    int64_t product = 1;
    for (int i = 0; i < axes; ++i) product *= sizes[static_cast<size_t>(i)];
    return product;
  }
};

}  // namespace crema
