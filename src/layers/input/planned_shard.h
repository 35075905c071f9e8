// The samples that a data layer gives to this process.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "core/error.h"
#include "crema.pb.h"
#include "data/pipeline/shuffle.h"
#include "graph/layer.h"

namespace crema {

// The shard of a planned layer: rank and world, which Infer receives and MakeState needs. A layer
// belongs to one plan, so each call of Infer stores the same. In TEST each process sees
// all samples. Thread safety: any thread.
class PlannedShard {
 public:
  // Called by Infer.
  void Note(const InferContext& context) const {
    CREMA_CHECK(context.rank >= 0 && context.rank < context.world);
    if (context.phase != TRAIN) return;
    rank_and_world_ =
        uint64_t{static_cast<uint32_t>(context.rank)} << 32 | static_cast<uint32_t>(context.world);
  }
  // Returns the shard noted by Infer.
  Shard Get() const {
    const uint64_t both = rank_and_world_;
    return {.rank = both >> 32, .world = both & UINT32_MAX};
  }

 private:
  mutable std::atomic<uint64_t> rank_and_world_{1};  // rank 0 of 1
};

// Returns the number of samples of a shard in one pass over `count` samples, rounded down but at
// least 1. Returns 0 for `count` 0, which means a source without end.
inline uint64_t EpochOf(const Shard& shard, uint64_t count) {
  return count == 0 ? 0 : std::max<uint64_t>(1, count / shard.world);
}

}  // namespace crema
