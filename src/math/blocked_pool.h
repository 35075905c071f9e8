// Pooling of planes of ChannelBlock() channels each (core/memory_format.h): the same windows,
// values, indices and rules as in math/pool.h, a vector of channels at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "math/pool.h"

namespace crema {

// For all of these: T, the type of the elements, is float or BFloat16; `planes` is batch x blocks
// of channels; work is cut over `threads` threads, and bits do not depend on them. Index is uint8_t
// or int32_t. Thread safety: any.

// `index` may be null.
template <typename T, typename Index>
void BlockedMaxPool(int threads, const PoolWindow& window, int64_t planes, const T* x, T* y,
                    Index* index);
// Scratch of BFloat16 for the functions below, where sums are taken; float needs none.
size_t BlockedPoolBackwardScratch(int threads, const PoolWindow& window);
template <typename T, typename Index>
void BlockedMaxPoolBackward(int threads, const PoolWindow& window, int64_t planes,
                            const Index* index, const T* dy, T* dx, std::span<std::byte> scratch);

// Requires windows that are not empty.
template <typename T>
void BlockedAveragePool(int threads, const PoolWindow& window, bool exclude_pad, int64_t planes,
                        const T* x, T* y);
template <typename T>
void BlockedAveragePoolBackward(int threads, const PoolWindow& window, bool exclude_pad,
                                int64_t planes, const T* dy, T* dx, std::span<std::byte> scratch);

}  // namespace crema
