// Which samples a data layer gives to this process.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "core/error.h"
#include "crema.pb.h"
#include "data/pipeline/shuffle.h"
#include "graph/layer.h"

namespace crema {

// The shard that a layer is planned with: Infer is told rank and world, and MakeState, which needs
// them, is not. A layer is of one plan, so each call of Infer notes the same. Nets that test see
// all samples in each process. Thread safety: any thread.
class PlannedShard {
 public:
  // For Infer.
  void Note(const InferContext& context) const {
    CREMA_CHECK(context.rank >= 0 && context.rank < context.world);
    if (context.phase != TRAIN) return;
    rank_and_world_ =
        uint64_t{static_cast<uint32_t>(context.rank)} << 32 | static_cast<uint32_t>(context.world);
  }
  // For what comes behind it.
  Shard Get() const {
    const uint64_t both = rank_and_world_;
    return {.rank = both >> 32, .world = both & UINT32_MAX};
  }

 private:
  mutable std::atomic<uint64_t> rank_and_world_{1};  // 0 of 1
};

// Samples of a shard in one pass over `count` samples, rounded down, but not to 0, which stands for
// a source without end.
inline uint64_t EpochOf(const Shard& shard, uint64_t count) {
  return count == 0 ? 0 : std::max<uint64_t>(1, count / shard.world);
}

}  // namespace crema
