// Internal to the gradient of weights in bfloat16: the products by processor unit.
#pragma once

#include <cstdint>
#include <span>

#include "core/bfloat16.h"
#include "math/blocked_conv.h"

namespace crema::bf16_gradient {

// For rows x columns blocks (1 or 2 each): sums[channel][output] += the sum over places of the
// input's channel times the gradient of the output. After `places`, up to the next multiple of 32,
// gradients are zero and inputs finite.
struct ProductOperands {
  int64_t places;
  const BFloat16* inputs;  // [block][channel][place], at any place
  int64_t input_row;       // elements from channel to channel
  int64_t input_block;
  const BFloat16* gradients;  // [block][pair of places][output][2]
  int64_t gradient_block;
  float* sums;  // tiles of 16 x 16, those of one row of blocks side by side
  int64_t sum_row;
};

using GradientFunction = void (*)(const BlockedConvShape& shape, int threads, const BFloat16* x,
                                  const BFloat16* dy, float* dweight, std::span<std::byte> scratch);

void VectorGradient(const BlockedConvShape& shape, int threads, const BFloat16* x,
                    const BFloat16* dy, float* dweight, std::span<std::byte> scratch);
void TileGradient(const BlockedConvShape& shape, int threads, const BFloat16* x, const BFloat16* dy,
                  float* dweight, std::span<std::byte> scratch);
// Returns true if the processor has AMX for bfloat16 and Linux saves its state.
bool ProcessorHasTiles();
// Returns true if, in addition, Linux lets this process use it.
bool HasTiles();

}  // namespace crema::bf16_gradient
