// Products of blocked blobs (core/memory_format.h) with factors of channels, such as those of
// squeeze-and-excitation. Source: Hu, Shen and Sun, "Squeeze-and-Excitation Networks", 2018.
#pragma once

#include <cstdint>

#include "core/bfloat16.h"

namespace crema {

// The blocked blob, N x C x pixels, and its plain factors.
struct ScaledBlocks {
  int64_t batch = 0;
  int64_t channels = 0;
  int64_t pixels = 0;      // of a plane
  bool per_image = false;  // factors: N x C; otherwise C, for all images
};

// For both functions: T is float or BFloat16; work is divided among `threads` threads, and results
// do not depend on their number. Thread safety: any.

// y = x * factors. Where x pads the last block, y is 0. y may be x.
template <typename T>
void ScaleBlockedChannels(int threads, const ScaledBlocks& blocks, const T* x, const float* factors,
                          T* y);
// sums = the sums of x * z, in the shape of the factors.
template <typename T>
void BlockedChannelDots(int threads, const ScaledBlocks& blocks, const T* x, const T* z,
                        float* sums);

}  // namespace crema
