// Internal to the gradient of weights in bfloat16: packs channel blocks as operands of the
// products, and converts their sums to the order of a caffemodel. Thread safety: any.
#pragma once

#include <cstdint>

#include "core/bfloat16.h"
#include "math/cpu/bf16_gradient_plan.h"

namespace crema::bf16_gradient {

inline constexpr int64_t kNowhere = -1;  // a place that holds zeros

// Finds the pixels of places [begin, begin + count) of a run: element offsets from block 0 of image
// 0, or kNowhere. `count` is at most plan.input_row, and plan.chunk for dy.
void FindInputs(const Plan& plan, int64_t run, int64_t phase, int64_t begin, int64_t count,
                int64_t* places);
void FindGradients(const Plan& plan, int64_t run, int64_t begin, int64_t count, int64_t* places);

// Both functions below require a processor with AVX-512 and a `count` that is a multiple of
// kPlaces.
// to[channel * row + i]: place i of a channel.
void PackInputs(const BFloat16* block, const int64_t* places, int64_t count, int64_t row,
                BFloat16* to);
// to[(i / 2 * 16 + channel) * 2 + i % 2]: place i of a channel.
void PackGradients(const BFloat16* block, const int64_t* places, int64_t count, BFloat16* to);

// Input blocks [from, from + from_count) x output blocks [to, to + to_count) of a group.
struct Slab {
  int64_t group, from, from_count, to, to_count;
};

// Adds `parts` sets of sums, of which the first is overwritten, to the gradient of the weights. A
// set has tiles of 16 inputs x 16 outputs by filter place, block of inputs and block of outputs.
void FinishSlab(const Plan& plan, const Slab& slab, int64_t parts, float* sums, float* dweight);

}  // namespace crema::bf16_gradient
