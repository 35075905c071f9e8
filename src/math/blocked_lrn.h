// Local response normalisation over neighbouring channels, on blocked blobs of whole blocks.
#pragma once

#include <cstdint>

#include "math/lrn.h"

namespace crema {

// Windows of up to this size: each sum is taken anew.
constexpr int64_t kMostBlockedLrn = 15;

// Floats of scratch that the functions below need for each thread.
int64_t BlockedLrnScratch(int64_t channels);

// As LrnAcross and LrnAcrossBackward (math/lrn.h), for `batch` images. `scale` may be null in the
// former. Bits do not depend on the number of threads. Thread safety: any, with scratch of its own.
void BlockedLrn(int threads, int64_t batch, const LrnShape& shape, const LrnParam& param,
                const float* x, float* scale, float* y, float* scratch);
void BlockedLrnBackward(int threads, int64_t batch, const LrnShape& shape, const LrnParam& param,
                        const float* x, const float* scale, const float* dy, float* dx,
                        float* scratch);

}  // namespace crema
