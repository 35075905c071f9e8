#include "core/parallel_for.h"
#include "math/cpu/blocked_winograd_plan.h"
#include "math/cpu/blocked_winograd_products.h"
#include "math/cpu/blocked_winograd_tiles.h"
#include "math/scratch.h"

namespace crema::blocked_winograd {
namespace {

struct Operands {
  int64_t batch;
  const float* from;
  const float* filters;
  const WinogradEpilogue& epilogue;
  float* to;
};

// A piece of the batch's tiles: [first, first + count).
struct Chunk {
  int64_t first, count;
};

class Convolver {
 public:
  Convolver(const Pass& pass, const Cut& cut, const Operands& operands)
      : p_(pass), cut_(cut), o_(operands) {}

  Chunk ChunkOf(int64_t number) const {
    const int64_t first = number * cut_.tiles;
    return {first, std::min(cut_.tiles, p_.Tiles(o_.batch) - first)};
  }

  // Transforms inputs [begin, end) of a chunk, numbered by channel block and tile.
  void Transform(int64_t group, const Chunk& chunk, int64_t begin, int64_t end,
                 float* inputs) const {
    while (begin < end) {
      const int64_t block = begin / chunk.count, tile = begin % chunk.count;
      const int64_t count = std::min(end - begin, chunk.count - tile);
      float* to = inputs + (block * cut_.tiles + tile) * kLanes;
      const int64_t first = chunk.first + tile;
      ForTileRuns(p_, first, first + count, [&](const TileRun& run, int64_t before) {
        TransformInputs({From(run.image, group, block), p_.in_h, p_.in_w, p_.pad_h, p_.pad_w}, run,
                        to + before * kLanes, cut_.InputPoint(p_));
      });
      begin += count;
    }
  }

  // Computes the output channels of slabs [slab, end).
  void Compute(int64_t group, const Chunk& chunk, int64_t slab, int64_t end, const float* inputs,
               float* products) const {
    for (; slab < end; ++slab) ComputeSlab(group, chunk, slab, inputs, products);
  }

 private:
  void ComputeSlab(int64_t group, const Chunk& chunk, int64_t slab, const float* inputs,
                   float* products) const {
    const int64_t begin = slab * cut_.slab;
    const int64_t end = std::min(begin + cut_.slab, p_.ToBlocks());
    for (int64_t point = 0; point < kPoints; ++point) {
      for (int64_t block = begin; block < end; block += kMaxVectors) {
        MultiplyPoint(
            group, chunk.count, point, block, inputs + point * cut_.InputPoint(p_),
            products + point * cut_.ProductPoint() + (block - begin) * cut_.tiles * kLanes);
      }
    }
    for (int64_t block = begin; block < end; ++block) {
      Finish(group, chunk, block, products + (block - begin) * cut_.tiles * kLanes);
    }
  }

  const float* From(int64_t image, int64_t group, int64_t block) const {
    return o_.from + ((image * p_.groups + group) * p_.FromBlocks() + block) * p_.InPlane();
  }

  const float* Filters(int64_t group, int64_t block, int64_t point) const {
    return o_.filters + group * FilterGroup(p_) + block / kMaxVectors * FilterPair(p_) +
           point * FilterPoint(p_, std::min(kMaxVectors, p_.ToBlocks() - block));
  }
  // Returns the filters that are multiplied next: in this slab, or at the start of another.
  const float* NextFilters(int64_t group, int64_t block, int64_t point) const {
    const int64_t begin = block / cut_.slab * cut_.slab;
    const int64_t end = std::min(begin + cut_.slab, p_.ToBlocks());
    if (block + kMaxVectors < end) return Filters(group, block + kMaxVectors, point);
    if (point + 1 < kPoints) return Filters(group, begin, point + 1);
    return Filters(group, end < p_.ToBlocks() ? end : 0, 0);
  }

  void MultiplyPoint(int64_t group, int64_t tiles, int64_t point, int64_t block,
                     const float* inputs, float* products) const {
    const int64_t vectors = std::min(kMaxVectors, p_.ToBlocks() - block);
    ProductTile tile{};
    tile.blocks = p_.FromBlocks();
    tile.v_block = tile.m_block = cut_.tiles * kLanes;
    tile.u = Filters(group, block, point);
    // Each part prefetches its share of the next filters from the third-level cache.
    const float* next = NextFilters(group, block, point);
    const int64_t parts = DivideUp(tiles, kMaxRows);
    tile.next_step = DivideUp(vectors * kLanes, parts);
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t first = tiles * part / parts;
      tile.v = inputs + first * kLanes;
      tile.m = products + first * kLanes;
      tile.next = next + part * tile.next_step * p_.FromBlocks() * kLanes;
      Multiply(tiles * (part + 1) / parts - first, vectors, tile);
    }
  }

  void Finish(int64_t group, const Chunk& chunk, int64_t block, const float* products) const {
    // The padding channels of the last block stay 0.
    alignas(64) float bias[kLanes] = {};
    if (o_.epilogue.bias != nullptr) {
      const float* from = o_.epilogue.bias + group * p_.to + block * kLanes;
      std::copy_n(from, std::min(kLanes, p_.to - block * kLanes), bias);
    }
    const int64_t dense = p_.groups * p_.ToBlocks() * p_.OutPlane();  // an image
    const int64_t stride = o_.epilogue.y_stride == 0 ? dense : o_.epilogue.y_stride;
    const int64_t within = (group * p_.ToBlocks() + block) * p_.OutPlane();
    ForTileRuns(p_, chunk.first, chunk.first + chunk.count,
                [&](const TileRun& run, int64_t before) {
                  const int64_t plane = run.image * dense + within;
                  const float* residual = o_.epilogue.residual;
                  TransformOutputs(products + before * kLanes, cut_.ProductPoint(), run,
                                   {.data = o_.to + run.image * stride + within,
                                    .residual = residual == nullptr ? nullptr : residual + plane,
                                    .height = p_.out_h,
                                    .width = p_.out_w,
                                    .bias = bias,
                                    .relu = o_.epilogue.relu.on,
                                    .slope = o_.epilogue.relu.slope});
                });
  }

  const Pass& p_;
  const Cut& cut_;
  const Operands& o_;
};

int64_t InputElements(const Pass& p, const Cut& cut) { return kPoints * cut.InputPoint(p); }
int64_t ProductElements(const Cut& cut) { return kPoints * cut.ProductPoint(); }
int64_t InputSets(const Cut& cut, int threads) {
  return cut.threads == Cut::Threads::kTogether ? 1 : threads;
}

}  // namespace

size_t ConvolveScratch(const Pass& p, int64_t batch, int threads) {
  if (batch == 0) return 0;
  // Fewer threads may run, and divide the work differently.
  size_t most = 0;
  for (int t = 1; t <= threads; ++t) {
    const Cut cut = CutOf(p, batch, t);
    most = std::max(most, ScratchBytes<float>(InputSets(cut, t) * InputElements(p, cut)) +
                              ScratchBytes<float>(t * ProductElements(cut)));
  }
  return most + kScratchSlack;
}

void Convolve(const Pass& p, int64_t batch, int threads, const float* from,
              const float* transformed, const WinogradEpilogue& epilogue, float* to,
              std::span<std::byte> scratch) {
  if (batch == 0) return;
  const Cut cut = CutOf(p, batch, threads);
  ScratchCutter cutter(scratch);
  auto* inputs = cutter.Take<float>(InputSets(cut, threads) * InputElements(p, cut));
  auto* products = cutter.Take<float>(threads * ProductElements(cut));
  const Operands operands{batch, from, transformed, epilogue, to};
  const Convolver convolver(p, cut, operands);
  // Runs slabs [slab, end) of groups and chunks [i, last) on one thread.
  const auto run = [&](int64_t i, int64_t last, int64_t slab, int64_t end, int worker) {
    float* mine = inputs + worker * InputElements(p, cut);
    for (; i < last; ++i) {
      const int64_t group = i / cut.chunks;
      const Chunk chunk = convolver.ChunkOf(i % cut.chunks);
      convolver.Transform(group, chunk, 0, p.FromBlocks() * chunk.count, mine);
      convolver.Compute(group, chunk, slab, end, mine, products + worker * ProductElements(cut));
    }
  };
  const int64_t all = p.groups * cut.chunks;
  switch (cut.threads) {
    case Cut::Threads::kChunks:
      ParallelFor(threads, all, 1, [&](int64_t begin, int64_t end, int worker) {
        run(begin, end, 0, cut.slabs, worker);
      });
      break;
    case Cut::Threads::kSlabs:
      ParallelFor(threads, cut.slabs, 1,
                  [&](int64_t begin, int64_t end, int worker) { run(0, all, begin, end, worker); });
      break;
    case Cut::Threads::kTogether:
      for (int64_t i = 0; i < all; ++i) {
        const int64_t group = i / cut.chunks;
        const Chunk chunk = convolver.ChunkOf(i % cut.chunks);
        ParallelFor(threads, p.FromBlocks() * chunk.count, 1, [&](int64_t begin, int64_t end, int) {
          convolver.Transform(group, chunk, begin, end, inputs);
        });
        ParallelFor(threads, cut.slabs, 1, [&](int64_t begin, int64_t end, int worker) {
          convolver.Compute(group, chunk, begin, end, inputs,
                            products + worker * ProductElements(cut));
        });
      }
      break;
  }
}

}  // namespace crema::blocked_winograd
