// Internal to Winograd convolution in channel blocks: divides a pass so that its working set stays
// in the second-level cache.
#pragma once

#include <cstddef>
#include <span>

#include "math/blocked_winograd.h"
#include "math/cpu/blocked_winograd_pass.h"
#include "math/cpu/blocked_winograd_products.h"

namespace crema::blocked_winograd {

// A chunk is a number of tiles whose inputs are transformed together; a slab is a number of blocks
// of output channels that are computed together from a chunk.
struct Cut {
  enum class Threads {
    kChunks,    // each has chunks of its own
    kSlabs,     // each has slabs of its own, and transforms all inputs for itself: no thread
                // waits, and no line goes from one core to another
    kTogether,  // all transform a chunk, then each computes slabs
  };

  int64_t tiles;   // of a chunk, at most
  int64_t chunks;  // of the batch
  int64_t slab;    // blocks, a multiple of kMaxVectors
  int64_t slabs;   // of a group
  Threads threads;

  // Elements between points of transformed inputs and of products.
  int64_t InputPoint(const Pass& p) const { return OddLines(p.FromBlocks() * tiles * kLanes); }
  int64_t ProductPoint() const { return OddLines(slab * tiles * kLanes); }
};

Cut CutOf(const Pass& p, int64_t batch, int threads);

// Transformed filters are laid out as group, pair of blocks of output channels, point, input
// channel, output channel; an odd last block is stored alone. The functions return elements between
// points of a pair, and between pairs and groups.
inline int64_t FilterPoint(const Pass& p, int64_t vectors) {
  return OddLines(p.FromBlocks() * kLanes * vectors * kLanes);
}
inline int64_t FilterPair(const Pass& p) { return kPoints * FilterPoint(p, kMaxVectors); }
inline int64_t FilterGroup(const Pass& p) {
  return p.ToBlocks() / kMaxVectors * FilterPair(p) +
         p.ToBlocks() % kMaxVectors * kPoints * FilterPoint(p, 1);
}

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

// One pass with transformed filters.
size_t ConvolveScratch(const Pass& p, int64_t batch, int threads);
void Convolve(const Pass& p, int64_t batch, int threads, const float* from,
              const float* transformed, const WinogradEpilogue& epilogue, float* to,
              std::span<std::byte> scratch);

}  // namespace crema::blocked_winograd
