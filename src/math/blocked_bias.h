// Biases of channels on blocked blobs (core/memory_format.h), and their gradients.
#pragma once

#include <cstdint>

#include "math/bias_activation.h"

namespace crema {

// y = relu(y + bias) for batch x channels x pixels; `bias` may be null. The padding of the last
// block stays 0. Results do not depend on the number of threads. Thread safety: any.
void AddBlockedBiasRelu(int threads, int64_t batch, int64_t channels, int64_t pixels,
                        const float* bias, FusedRelu relu, float* y);
// sums[c] += the sum of channel c of x. T is float or BFloat16.
template <typename T>
void AddBlockedChannelSums(int threads, int64_t batch, int64_t channels, int64_t pixels, const T* x,
                           float* sums);

}  // namespace crema
