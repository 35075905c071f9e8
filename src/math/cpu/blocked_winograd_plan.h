// Internal to Winograd convolution in channel blocks: divides a pass so that its working set stays
// in the second-level cache.
#pragma once

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

}  // namespace crema::blocked_winograd
