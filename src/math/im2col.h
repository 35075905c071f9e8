// Convolution as a matrix product: converts the patches of an image to columns, and back.
#pragma once

#include <cstdint>

#include "math/conv_window.h"

namespace crema {

// columns[(c, k...), o...] = image[c, o * stride - pad + k * dilation], 0 in the padding.
// Row-major: channels * KernelSize() rows of OutSize() elements. T is float or double. Thread
// safety: any.
template <typename T>
void Im2col(const ConvWindow& window, int64_t channels, const T* image, T* columns);

// The transpose: image[...] = the sum of all column elements that came from it. Overwrites `image`.
template <typename T>
void Col2im(const ConvWindow& window, int64_t channels, const T* columns, T* image);

}  // namespace crema
