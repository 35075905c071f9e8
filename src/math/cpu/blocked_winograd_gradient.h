// Internal to Winograd convolution in channel blocks: division of the filter gradient's work.
#pragma once

#include "math/cpu/blocked_winograd_pass.h"

namespace crema::blocked_winograd {

// The division of the work, by the shape alone: sums are added in the same order for any number of
// threads. A slab is a rectangle of input and output channels, whose sums stay in the second-level
// cache while a part of the tiles is processed.
struct GradientCut {
  static constexpr int64_t kSlabBlocks = 4;
  static constexpr int64_t kChunkTiles = 28;
  static constexpr int64_t kLeastUnits = 4;  // of work, to be shared out to threads

  GradientCut(const Pass& p, int64_t batch) : tiles(p.Tiles(batch)) {
    from = std::min(kSlabBlocks, p.FromBlocks());
    to = std::min(kSlabBlocks, p.ToBlocks());
    from_slabs = DivideUp(p.FromBlocks(), from);
    to_slabs = DivideUp(p.ToBlocks(), to);
    const int64_t slabs = p.groups * from_slabs * to_slabs;
    chunk = std::min(kChunkTiles, tiles);
    parts = std::clamp<int64_t>(DivideUp(kLeastUnits, slabs), 1, DivideUp(tiles, chunk));
  }

  int64_t InputPoint() const { return OddLines(from * chunk * kLanes); }
  int64_t OutputPoint() const { return OddLines(to * chunk * kLanes); }
  int64_t SumRow() const { return to * kLanes; }
  int64_t SumPoint() const { return OddLines(from * kLanes * SumRow()); }
  int64_t Sums() const { return kPoints * SumPoint(); }
  int64_t Transformed() const { return kPoints * (InputPoint() + OutputPoint()); }

  int64_t tiles;     // of the batch
  int64_t chunk;     // tiles that are transformed at a time
  int64_t from, to;  // blocks of a slab
  int64_t from_slabs, to_slabs;
  int64_t parts;  // of the tiles
};

}  // namespace crema::blocked_winograd
