// Internal to Winograd convolution in channel blocks: the sizes of one pass, and the numbering of
// tiles.
#pragma once

#include <algorithm>
#include <cstdint>

#include "math/packed_conv.h"

namespace crema::blocked_winograd {

constexpr int64_t kPoints = 36;  // products a tile and channel: 6 x 6
constexpr int64_t kOutputs = 4;  // a tile gives kOutputs x kOutputs
constexpr int64_t kLanes = 16;   // channels of a block
constexpr int64_t kRun = 8;      // tiles side by side that are transformed at a time, at most

constexpr int64_t DivideUp(int64_t count, int64_t unit) { return (count + unit - 1) / unit; }
// Returns an odd number of cache lines for `count` elements: 36 pieces at that distance do not fall
// into the same set of a cache.
constexpr int64_t OddLines(int64_t count) { return (DivideUp(count, kLanes) | 1) * kLanes; }

// One direction of a convolution: forward, or from the gradient of y to that of x, which is the
// convolution with rotated filters and with the complementary padding.
struct Pass {
  int64_t groups;
  int64_t from, to;  // channels of a group that are read and written
  int64_t in_h, in_w, out_h, out_w, pad_h, pad_w;

  int64_t FromBlocks() const { return DivideUp(from, kLanes); }
  int64_t ToBlocks() const { return DivideUp(to, kLanes); }
  int64_t TilesH() const { return DivideUp(out_h, kOutputs); }
  int64_t TilesW() const { return DivideUp(out_w, kOutputs); }
  int64_t Tiles(int64_t batch) const { return batch * TilesH() * TilesW(); }
  int64_t InPlane() const { return in_h * in_w * kLanes; }  // of one block
  int64_t OutPlane() const { return out_h * out_w * kLanes; }
};

inline Pass ForwardPass(const PackedConvShape& s) {
  return {s.groups, s.channels, s.outputs, s.h.in, s.w.in, s.h.out, s.w.out, s.h.pad, s.w.pad};
}

inline Pass DataGradientPass(const PackedConvShape& s) {
  return {s.groups, s.outputs, s.channels,  s.h.out,    s.w.out,
          s.h.in,   s.w.in,    2 - s.h.pad, 2 - s.w.pad};
}

// Tiles side by side in one image.
struct TileRun {
  int64_t image, row, column, count;
};

// Calls body(run, tiles before it) for tiles [begin, end) of a batch, numbered by image, row and
// column.
template <typename Body>
void ForTileRuns(const Pass& p, int64_t begin, int64_t end, Body&& body) {
  const int64_t width = p.TilesW(), height = p.TilesH();
  for (int64_t tile = begin; tile < end;) {
    const int64_t row = tile / width, column = tile % width;
    const int64_t count = std::min({end - tile, width - column, kRun});
    body(TileRun{row / height, row % height, column, count}, tile - begin);
    tile += count;
  }
}

}  // namespace crema::blocked_winograd
