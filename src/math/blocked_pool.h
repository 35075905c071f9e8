// Pooling of planes of ChannelBlock() channels each (core/memory_format.h): the same windows,
// values, indices and rules as in math/pool.h, a vector of channels at a time.
#pragma once

#include <cstdint>

#include "math/pool.h"

namespace crema {

// For all of these: `planes` is batch x blocks of channels; work is cut over `threads` threads, and
// bits do not depend on them. Index is uint8_t or int32_t. Thread safety: any.

// `index` may be null.
template <typename Index>
void BlockedMaxPool(int threads, const PoolWindow& window, int64_t planes, const float* x, float* y,
                    Index* index);
template <typename Index>
void BlockedMaxPoolBackward(int threads, const PoolWindow& window, int64_t planes,
                            const Index* index, const float* dy, float* dx);

// Requires windows that are not empty.
void BlockedAveragePool(int threads, const PoolWindow& window, bool exclude_pad, int64_t planes,
                        const float* x, float* y);
void BlockedAveragePoolBackward(int threads, const PoolWindow& window, bool exclude_pad,
                                int64_t planes, const float* dy, float* dx);

}  // namespace crema
