// Pooling of int8 blobs (Layout::kNHWC): windows as in math/pool.h.
#pragma once

#include <cstdint>

#include "math/int8_copy.h"
#include "math/pool.h"

namespace crema {

// For both: `batch` images of `channels`; x and y are N x H x W x C. Thread safety: any.

// The largest element of each window, the lowest value of the type if it is empty; y has the scale
// of x.
void Int8MaxPool(int threads, const PoolWindow& window, int64_t batch, int64_t channels,
                 bool is_signed, const void* x, void* y);

// Means of exact sums: as int8 elements of scale `out`, or as floats in y, N x H x W x C too.
// Requires that no window is empty.
void Int8AveragePool(int threads, const PoolWindow& window, bool exclude_pad, int64_t batch,
                     int64_t channels, Int8Scale scale, const void* x, Int8Scale out, void* y);
void Int8AveragePool(int threads, const PoolWindow& window, bool exclude_pad, int64_t batch,
                     int64_t channels, Int8Scale scale, const void* x, float* y);

}  // namespace crema
