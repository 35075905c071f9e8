// Between the plain and the blocked format (core/memory_format.h).
#pragma once

#include <cstdint>

#include "core/bfloat16.h"

namespace crema {

// x: batch x channels x pixels, row-major. y: batch x blocks x pixels x ChannelBlock(); channels
// that fill up the last block become 0. Requires: ChannelBlock() > 0. Thread safety: any.
// T, what is blocked, is float or BFloat16.
template <typename T>
void PlainToBlocked(int threads, int64_t batch, int64_t channels, int64_t pixels, const float* x,
                    T* y);
// The way back.
template <typename T>
void BlockedToPlain(int threads, int64_t batch, int64_t channels, int64_t pixels, const T* x,
                    float* y);

// The same order in the other type. Thread safety: any.
void RoundAll(int threads, int64_t count, const float* x, BFloat16* y);
void WidenAll(int threads, int64_t count, const BFloat16* x, float* y);

}  // namespace crema
