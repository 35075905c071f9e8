// Converts between the plain and the blocked or the channels-last layout (core/memory_format.h).
#pragma once

#include <cstdint>

#include "core/bfloat16.h"

namespace crema {

// x: batch x channels x pixels, row-major. y: batch x blocks x pixels x ChannelBlock(); the padding
// channels of the last block become 0. Requires: ChannelBlock() > 0. Thread safety: any. T, the
// element type of the blocked blob, is float or BFloat16.
template <typename T>
void PlainToBlocked(int threads, int64_t batch, int64_t channels, int64_t pixels, const float* x,
                    T* y);
// The inverse of PlainToBlocked.
template <typename T>
void BlockedToPlain(int threads, int64_t batch, int64_t channels, int64_t pixels, const T* x,
                    float* y);

// From batch x pixels x channels.
void ChannelsLastToPlain(int threads, int64_t batch, int64_t channels, int64_t pixels,
                         const BFloat16* x, float* y);

// Convert the element type; the layout stays. Thread safety: any.
void RoundAll(int threads, int64_t count, const float* x, BFloat16* y);
void WidenAll(int threads, int64_t count, const BFloat16* x, float* y);

}  // namespace crema
