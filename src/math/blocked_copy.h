// Between the plain and the blocked format (core/memory_format.h).
#pragma once

#include <cstdint>

namespace crema {

// x: batch x channels x pixels, row-major. y: batch x blocks x pixels x ChannelBlock(); channels
// that fill up the last block become 0. Requires: ChannelBlock() > 0. Thread safety: any.
void PlainToBlocked(int threads, int64_t batch, int64_t channels, int64_t pixels, const float* x,
                    float* y);
// The way back.
void BlockedToPlain(int threads, int64_t batch, int64_t channels, int64_t pixels, const float* x,
                    float* y);

}  // namespace crema
