#include "math/cpu/blocked_winograd_plan.h"

namespace crema::blocked_winograd {
namespace {

Cut::Threads ThreadsOf(const Pass& p, int64_t tiles, int threads, bool large) {
  constexpr int64_t kLeastTiles = kMaxRows;  // enough to keep the products busy
  constexpr int64_t kFewTiles = 64;          // cheap to transform several times
  constexpr int kFewThreads = 4;
  const int64_t pairs = DivideUp(p.ToBlocks(), kMaxVectors);
  if (threads == 1) return Cut::Threads::kChunks;
  if ((!large || pairs < threads) && tiles >= threads * kLeastTiles) return Cut::Threads::kChunks;
  const bool few = tiles <= kFewTiles && threads <= kFewThreads;
  return few ? Cut::Threads::kSlabs : Cut::Threads::kTogether;
}

}  // namespace

// As measured by bench/blocked_winograd_bench.cc with 2 MiB of second-level cache a core.
Cut CutOf(const Pass& p, int64_t batch, int threads) {
  const int64_t tiles = p.Tiles(batch);
  // With more channels the filters are so large that they are read from the third-level cache: many
  // tiles share each read, although they then do not stay in the second level.
  const bool large = p.from > 128;
  const int64_t most = large ? 128 : p.from > 64 ? 28 : 42;
  const int64_t pairs = DivideUp(p.ToBlocks(), kMaxVectors);
  Cut cut{};
  cut.threads = ThreadsOf(p, tiles, threads, large);
  cut.slab = kMaxVectors;
  const int64_t sharing = cut.threads == Cut::Threads::kChunks ? 1 : threads;
  if (large && tiles > most / 2) {
    const int64_t unit = 4 * sharing;
    cut.slabs = sharing * std::max<int64_t>(1, (pairs + unit / 2) / unit);
    cut.slab = DivideUp(pairs, cut.slabs) * kMaxVectors;
  }
  cut.slabs = DivideUp(p.ToBlocks(), cut.slab);
  cut.chunks = DivideUp(tiles, most);
  if (sharing == 1) cut.chunks = std::min(tiles, DivideUp(cut.chunks, threads) * threads);
  cut.tiles = DivideUp(tiles, cut.chunks);
  cut.chunks = DivideUp(tiles, cut.tiles);
  return cut;
}

}  // namespace crema::blocked_winograd
