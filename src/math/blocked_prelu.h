// PReLU on blocked blobs (core/memory_format.h); the padding of the last block stays 0.
#pragma once

#include <cstdint>

namespace crema {

struct PReluBlocks {
  int64_t batch = 0;
  int64_t channels = 0;
  int64_t pixels = 0;  // of a plane
  const float* slope = nullptr;
  bool shared = false;  // one slope for all channels
};

// For all functions below: work is divided among `threads` threads, and results do not depend on
// their number. Thread safety: any.

// y = x > 0 ? x : slope * x. y may be x.
void BlockedPRelu(int threads, const PReluBlocks& blocks, const float* x, float* y);
// dx = x > 0 ? dy : slope * dy. dx may be dy.
void BlockedPReluBackward(int threads, const PReluBlocks& blocks, const float* x, const float* dy,
                          float* dx);
// dslope += the sums of x * dy where x <= 0, by channel; `shared`: one sum.
void BlockedPReluToSlope(int threads, const PReluBlocks& blocks, const float* x, const float* dy,
                         float* dslope);

}  // namespace crema
