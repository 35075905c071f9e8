// The gradient of the filters: G^T (sum over tiles of B^T x B times A dy A^T) G.
#include "core/parallel_for.h"
#include "math/blocked_winograd.h"
#include "math/cpu/blocked_winograd_plan.h"
#include "math/cpu/blocked_winograd_products.h"
#include "math/cpu/blocked_winograd_tiles.h"
#include "math/scratch.h"

namespace crema {

using namespace blocked_winograd;  // NOLINT: this file is a part of it

namespace {

// Input blocks [from, from + from_count) x output blocks [to, to + to_count) of a group.
struct Slab {
  int64_t group, from, from_count, to, to_count;
};

class GradientWorker {
 public:
  GradientWorker(const Pass& pass, const GradientCut& cut, const float* x, const float* dy)
      : p_(pass), cut_(cut), x_(x), dy_(dy) {}

  Slab SlabOf(int64_t number) const {
    const int64_t from = number / cut_.to_slabs % cut_.from_slabs * cut_.from;
    const int64_t to = number % cut_.to_slabs * cut_.to;
    return {number / (cut_.to_slabs * cut_.from_slabs), from,
            std::min(cut_.from, p_.FromBlocks() - from), to, std::min(cut_.to, p_.ToBlocks() - to)};
  }

  // Computes the sums of one part of the tiles.
  void Sum(const Slab& slab, int64_t part, float* transformed, float* sums) const {
    const int64_t begin = cut_.tiles * part / cut_.parts;
    const int64_t end = cut_.tiles * (part + 1) / cut_.parts;
    float* inputs = transformed;
    float* outputs = transformed + kPoints * cut_.InputPoint();
    for (int64_t tile = begin; tile < end; tile += cut_.chunk) {
      const int64_t count = std::min(cut_.chunk, end - tile);
      TransformChunk(slab, tile, count, inputs, outputs);
      for (int64_t point = 0; point < kPoints; ++point) {
        MultiplyPoint(slab, count, tile > begin, inputs + point * cut_.InputPoint(),
                      outputs + point * cut_.OutputPoint(), sums + point * cut_.SumPoint());
      }
    }
  }

  // Adds the slab's gradients to those of the filters.
  void Finish(const Slab& slab, const float* sums, float* dweight) const {
    const int64_t channels = std::min(slab.from_count * kLanes, p_.from - slab.from * kLanes);
    float* group = dweight + (slab.group * p_.to * p_.from + slab.from * kLanes) * 9;
    for (int64_t block = 0; block < slab.to_count; ++block) {
      const int64_t first = (slab.to + block) * kLanes;
      for (int64_t c = 0; c < channels; ++c) {
        AddFilterGradients(
            sums + c * cut_.SumRow() + block * kLanes, cut_.SumPoint(),
            {group + (first * p_.from + c) * 9, p_.from * 9, std::min(kLanes, p_.to - first)});
      }
    }
  }

 private:
  void TransformChunk(const Slab& slab, int64_t tile, int64_t count, float* inputs,
                      float* outputs) const {
    ForTileRuns(p_, tile, tile + count, [&](const TileRun& run, int64_t before) {
      const int64_t group = run.image * p_.groups + slab.group;
      for (int64_t b = 0; b < slab.from_count; ++b) {
        const int64_t block = group * p_.FromBlocks() + slab.from + b;
        TransformInputs({x_ + block * p_.InPlane(), p_.in_h, p_.in_w, p_.pad_h, p_.pad_w}, run,
                        inputs + (b * cut_.chunk + before) * kLanes, cut_.InputPoint());
      }
      for (int64_t b = 0; b < slab.to_count; ++b) {
        const int64_t block = group * p_.ToBlocks() + slab.to + b;
        TransformOutputGradients({dy_ + block * p_.OutPlane(), p_.out_h, p_.out_w, 0, 0}, run,
                                 outputs + (b * cut_.chunk + before) * kLanes, cut_.OutputPoint());
      }
    });
  }

  void MultiplyPoint(const Slab& slab, int64_t tiles, bool accumulate, const float* inputs,
                     const float* outputs, float* sums) const {
    const int64_t step = cut_.chunk * kLanes;  // between blocks
    for (int64_t b = 0; b < slab.to_count; b += kMaxVectors) {
      const int64_t vectors = std::min(kMaxVectors, slab.to_count - b);
      for (int64_t c = 0; c < slab.from_count * kLanes; c += kGradientRows) {
        MultiplyGradients(vectors, {.tiles = tiles,
                                    .v = inputs + c / kLanes * step + c % kLanes,
                                    .d = outputs + b * step,
                                    .d_block = step,
                                    .sums = sums + c * cut_.SumRow() + b * kLanes,
                                    .sums_row = cut_.SumRow(),
                                    .accumulate = accumulate});
      }
    }
  }

  const Pass& p_;
  const GradientCut& cut_;
  const float* x_;
  const float* dy_;
};

int64_t Slabs(const Pass& p, const GradientCut& cut) {
  return p.groups * cut.from_slabs * cut.to_slabs;
}
// One set of sums for each thread, or for each part until the parts can be added.
int64_t SumSets(const Pass& p, const GradientCut& cut, int threads) {
  return cut.parts == 1 ? threads : Slabs(p, cut) * cut.parts;
}

}  // namespace

size_t BlockedWinogradWeightGradientScratch(const PackedConvShape& s, int64_t batch, int threads) {
  if (batch == 0) return 0;
  const Pass p = ForwardPass(s);
  const GradientCut cut(p, batch);
  return ScratchBytes<float>(threads * cut.Transformed()) +
         ScratchBytes<float>(SumSets(p, cut, threads) * cut.Sums()) + kScratchSlack;
}

void BlockedWinogradWeightGradient(const PackedConvShape& s, int64_t batch, int threads,
                                   const float* x, const float* dy, float* dweight,
                                   std::span<std::byte> scratch) {
  if (batch == 0) return;
  const Pass p = ForwardPass(s);
  const GradientCut cut(p, batch);
  ScratchCutter cutter(scratch);
  auto* transformed = cutter.Take<float>(threads * cut.Transformed());
  auto* sums = cutter.Take<float>(SumSets(p, cut, threads) * cut.Sums());
  const GradientWorker gradient(p, cut, x, dy);
  const int64_t slabs = Slabs(p, cut);
  ParallelFor(threads, slabs * cut.parts, 1, [&](int64_t i, int64_t end, int worker) {
    for (; i < end; ++i) {
      const Slab slab = gradient.SlabOf(i / cut.parts);
      float* mine = sums + (cut.parts == 1 ? worker : i) * cut.Sums();
      gradient.Sum(slab, i % cut.parts, transformed + worker * cut.Transformed(), mine);
      if (cut.parts == 1) gradient.Finish(slab, mine, dweight);
    }
  });
  if (cut.parts == 1) return;
  const int64_t lines = slabs * kPoints;
  ParallelFor(threads, lines, 1, [&](int64_t line, int64_t end, int) {
    for (; line < end; ++line) {
      float* first =
          sums + line / kPoints * cut.parts * cut.Sums() + line % kPoints * cut.SumPoint();
      for (int64_t part = 1; part < cut.parts; ++part) {
        const float* more = first + part * cut.Sums();
        for (int64_t i = 0; i < cut.SumPoint(); ++i) first[i] += more[i];
      }
    }
  });
  ParallelFor(threads, slabs, 1, [&](int64_t slab, int64_t end, int) {
    for (; slab < end; ++slab) {
      gradient.Finish(gradient.SlabOf(slab), sums + slab * cut.parts * cut.Sums(), dweight);
    }
  });
}

}  // namespace crema
