// Internal to Winograd convolution in channel blocks: one pass with transformed filters.
#pragma once

#include <cstddef>
#include <span>

#include "math/blocked_winograd.h"
#include "math/cpu/blocked_winograd_pass.h"

namespace crema::blocked_winograd {

size_t ConvolveScratch(const Pass& p, int64_t batch, int threads);
void Convolve(const Pass& p, int64_t batch, int threads, const float* from,
              const float* transformed, const WinogradEpilogue& epilogue, float* to,
              std::span<std::byte> scratch);

}  // namespace crema::blocked_winograd
