// Internal to Winograd convolution in channel blocks: the inner loops of the products of one point.
#pragma once

#include <cstdint>

#include "math/cpu/blocked_winograd_pass.h"

namespace crema::blocked_winograd {

constexpr int64_t kMaxRows = 14;      // tiles that Multiply takes at a time
constexpr int64_t kMaxVectors = 2;    // blocks of output channels that both take at a time
constexpr int64_t kGradientRows = 8;  // input channels that MultiplyGradients takes at a time

// m[t, k] = sum over channels c of v[t, c] * u[c, k].
struct ProductTile {
  int64_t blocks;     // of channels c
  const float* v;     // block of channels, tile, channel
  int64_t v_block;    // elements between blocks of v
  const float* u;     // channel, output channel of all vectors
  const float* next;  // prefetched, this many elements further for each channel
  int64_t next_step;
  float* m;  // block of output channels, tile, output channel
  int64_t m_block;
};
// `rows` tiles up to kMaxRows, `vectors` blocks of output channels up to kMaxVectors.
void Multiply(int64_t rows, int64_t vectors, const ProductTile& tile);

// sums[c, k] (+)= sum over tiles t of v[t, c] * d[t, k], for kGradientRows channels c.
struct GradientTile {
  int64_t tiles;
  const float* v;   // tile, channel; tiles lie kLanes apart
  const float* d;   // block of output channels, tile, output channel
  int64_t d_block;  // elements between blocks of d
  float* sums;
  int64_t sums_row;
  bool accumulate;
};
void MultiplyGradients(int64_t vectors, const GradientTile& tile);

}  // namespace crema::blocked_winograd
