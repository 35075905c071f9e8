// Local response normalisation over neighbouring channels, on blocked blobs of whole blocks.
#pragma once

#include <cstdint>

#include "math/lrn.h"

namespace crema {

// The largest window; each sum is computed anew.
constexpr int64_t kMostBlockedLrn = 15;

// Returns the floats of scratch that the functions below need for each thread.
int64_t BlockedLrnScratch(int64_t channels);

// As LrnAcross and LrnAcrossBackward (math/lrn.h), for `batch` images; T, the type of x, y and
// their gradients, is float or BFloat16. The backward pass recomputes the scale, which takes less
// time than keeping it. Results do not depend on the number of threads. Thread safety: any, with
// scratch of its own.
template <typename T>
void BlockedLrn(int threads, int64_t batch, const LrnShape& shape, const LrnParam& param,
                const T* x, T* y, float* scratch);
template <typename T>
void BlockedLrnBackward(int threads, int64_t batch, const LrnShape& shape, const LrnParam& param,
                        const T* x, const T* dy, T* dx, float* scratch);

}  // namespace crema
