#include <algorithm>
#include <array>

#include "core/parallel_for.h"
#include "math/cpu/packed_conv_view.h"
#include "math/cpu/simd_gemm.h"
#include "math/packed_conv.h"
#include "math/scratch.h"
#include "math/vectorize.h"

namespace crema {
namespace {

using namespace packed_conv;  // NOLINT: this file is a part of it

constexpr int64_t kDepthBlock = 256;   // of a panel: it stays in the first-level cache
constexpr int64_t kColumnBlock = 384;  // pixels that justify loading a part of the weights

// Returns the pixels processed at a time; for small images, only as many as some images have.
int64_t ColumnBlock(const PackedConvShape& s, const SimdGemm& simd) {
  const int64_t some = 16 * s.Pixels() / simd.columns * simd.columns;
  return std::clamp<int64_t>(some, simd.columns, kColumnBlock);
}
// Returns the most image copies that a block of pixels needs.
int64_t Slots(const PackedConvShape& s, const SimdGemm& simd) {
  return s.NeedsCopy() ? ColumnBlock(s, simd) / s.Pixels() + 2 : 0;
}
int64_t DepthParts(const PackedConvShape& s) { return (s.Depth() + kDepthBlock - 1) / kDepthBlock; }
int64_t PanelSize(const PackedConvShape& s, const SimdGemm& simd) {
  return simd.columns * std::min(kDepthBlock, s.Depth());
}
int64_t WorkerScratch(const PackedConvShape& s, const SimdGemm& simd) {
  return PanelSize(s, simd) + Slots(s, simd) * s.ViewImage() + kReadSlack;
}
int64_t PackedWeightCount(const PackedConvShape& s) {
  return s.WeightCount() + s.groups * kPackSlack;
}

// A piece of a row of outputs: its first patch, and its position in a panel.
struct PixelRun {
  const float* from;
  int64_t column;
  int64_t length;
};

// panel[k, column..] = kCount inputs from `from` on, for each k. The size is fixed, because a copy
// of unknown size takes longer than one of eight elements.
template <int kCount>
[[gnu::always_inline]] inline void FillPiece(const float* from, std::span<const int32_t> offsets,
                                             int64_t panel_columns, float* panel) {
  for (const int32_t offset : offsets) {
    std::memcpy(panel, from + offset, kCount * sizeof(float));
    panel += panel_columns;
  }
}

// panel[k, column] = patch input k of that pixel.
CREMA_MULTIVERSION void FillPanel(std::span<const PixelRun> runs, int64_t stride,
                                  std::span<const int32_t> offsets, int64_t panel_columns,
                                  float* panel) {
  for (const PixelRun& run : runs) {
    float* to = panel + run.column;
    int64_t i = 0;
    if (stride == 1 && run.length >= 8) {
      for (; i + 16 <= run.length; i += 16) {
        FillPiece<16>(run.from + i, offsets, panel_columns, to + i);
      }
      // The last pieces may overlap: they write the same values twice.
      for (; i < run.length; i += 8) {
        const int64_t at = std::min(i, run.length - 8);
        FillPiece<8>(run.from + at, offsets, panel_columns, to + at);
      }
    } else if (stride == 1 && run.length >= 4) {
      for (; i < run.length; i += 4) {
        const int64_t at = std::min(i, run.length - 4);
        FillPiece<4>(run.from + at, offsets, panel_columns, to + at);
      }
    }
    for (; i < run.length; ++i) {
      FillPiece<1>(run.from + i * stride, offsets, panel_columns, to + i);
    }
  }
}

struct Shared {
  const PackedConvShape& shape;
  const SimdGemm& simd;
  const float* x;
  const float* weight;  // packed: part of the depth, group, tile
  const int32_t* offsets;
  const float* bias;
  FusedRelu relu;
  float* y;
};

// The work of one thread.
class Worker {
 public:
  Worker(const Shared& shared, float* scratch)
      : shared_(shared),
        s_(shared.shape),
        simd_(shared.simd),
        panel_(scratch),
        copies_(scratch + PanelSize(s_, simd_)) {
    // Unused columns of a panel are multiplied too: denormal numbers there would be slow.
    std::fill_n(panel_, PanelSize(s_, simd_), 0.0F);
  }

  // Computes pixels [begin, end) of the batch.
  void Run(int64_t begin, int64_t end) {
    next_copy_ = begin / s_.Pixels();
    const int64_t block = ColumnBlock(s_, simd_);
    for (int64_t first = begin; first < end; first += block) {
      const int64_t count = std::min(block, end - first);
      if (s_.NeedsCopy()) CopyImages((first + count - 1) / s_.Pixels());
      for (int64_t group = 0; group < s_.groups; ++group) RunBlock(group, first, count);
    }
  }

 private:
  void CopyImages(int64_t last) {
    for (; next_copy_ <= last; ++next_copy_) {
      CopyWithPadding(s_, shared_.x + next_copy_ * s_.InImage(),
                      copies_ + next_copy_ % Slots(s_, simd_) * s_.ViewImage());
    }
  }
  const float* View(int64_t image) const {
    return s_.NeedsCopy() ? copies_ + image % Slots(s_, simd_) * s_.ViewImage()
                          : shared_.x + image * s_.InImage();
  }

  void RunBlock(int64_t group, int64_t first, int64_t count) {
    const int64_t parts = DepthParts(s_);
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t k0 = s_.Depth() * part / parts;
      const int64_t depth = s_.Depth() * (part + 1) / parts - k0;
      GemmTile tile;
      tile.depth = depth;
      tile.accumulate = part > 0;
      tile.relu = part == parts - 1 && shared_.relu.on;
      tile.slope = shared_.relu.slope;
      for (int64_t column = 0; column < count; column += simd_.columns) {
        tile.columns = static_cast<int>(std::min<int64_t>(simd_.columns, count - column));
        SetPanel(group, first + column, k0, &tile);
        RunPanel(group, first + column, k0, part == parts - 1, &tile);
      }
    }
  }

  // Sets the patches of the tile's pixels; copies nothing if they are the image itself.
  void SetPanel(int64_t group, int64_t first, int64_t k0, GemmTile* tile) {
    const int64_t pixel = first % s_.Pixels();
    const bool whole = tile->columns == simd_.columns && pixel + tile->columns <= s_.Pixels();
    const int64_t base = group * s_.channels * s_.h.reach * s_.w.reach;
    if (whole && s_.IsPointwise()) {
      tile->b = View(first / s_.Pixels()) + base + k0 * s_.Pixels() + pixel;
      tile->b_stride = s_.Pixels();
      return;
    }
    std::array<PixelRun, SimdGemm::kMaxColumns> runs;
    size_t run_count = 0;
    ForPixelRuns(s_, first, tile->columns,
                 [&](int64_t image, int64_t offset, int64_t column, int64_t length) {
                   runs[run_count++] = {View(image) + base + offset, column, length};
                 });
    FillPanel({runs.data(), run_count}, s_.w.stride,
              {shared_.offsets + k0, static_cast<size_t>(tile->depth)}, simd_.columns, panel_);
    tile->b = panel_;
    tile->b_stride = simd_.columns;
  }

  void RunPanel(int64_t group, int64_t first, int64_t k0, bool last_part, GemmTile* tile) {
    const int64_t pixel = first % s_.Pixels();
    const int64_t tiles = RowTiles(simd_, s_.outputs);
    const float* weight =
        shared_.weight + group * (s_.outputs * s_.Depth() + kPackSlack) + s_.outputs * k0;
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t row = RowTile(s_.outputs, tiles, t);
      const auto rows = static_cast<int>(RowTile(s_.outputs, tiles, t + 1) - row);
      const int64_t channel = group * s_.outputs + row;
      tile->a = weight + row * tile->depth;
      tile->row_bias = last_part && shared_.bias != nullptr ? shared_.bias + channel : nullptr;
      if (pixel + tile->columns <= s_.Pixels()) {
        tile->c = shared_.y + first / s_.Pixels() * s_.OutImage() + channel * s_.Pixels() + pixel;
        tile->c_stride = s_.Pixels();
        simd_.run(rows, *tile);
      } else {
        RunAcrossImages(channel, rows, first, tile);
      }
    }
  }

  // Computes a tile with pixels of several images in a separate buffer.
  void RunAcrossImages(int64_t channel, int rows, int64_t first, GemmTile* tile) {
    alignas(64) float aside[SimdGemm::kMaxRows * SimdGemm::kMaxColumns];
    const auto exchange = [&](bool load) {
      for (int64_t column = 0; column < tile->columns;) {
        const int64_t pixel = (first + column) % s_.Pixels();
        const int64_t count = std::min(tile->columns - column, s_.Pixels() - pixel);
        float* y = shared_.y + (first + column) / s_.Pixels() * s_.OutImage() +
                   channel * s_.Pixels() + pixel;
        for (int r = 0; r < rows; ++r, y += s_.Pixels()) {
          float* line = aside + r * SimdGemm::kMaxColumns + column;
          load ? CopyExactly(y, count, line) : CopyExactly(line, count, y);
        }
        column += count;
      }
    };
    if (tile->accumulate) exchange(true);
    tile->c = aside;
    tile->c_stride = SimdGemm::kMaxColumns;
    simd_.run(rows, *tile);
    exchange(false);
  }

  const Shared& shared_;
  const PackedConvShape& s_;
  const SimdGemm& simd_;
  float* panel_;
  float* copies_;
  int64_t next_copy_ = 0;
};

// Assigns whole images to each thread if there are enough, else panels.
int64_t Unit(const PackedConvShape& s, const SimdGemm& simd, int64_t batch, int threads) {
  return batch >= threads ? s.Pixels() : simd.columns;
}
int64_t Units(const PackedConvShape& s, const SimdGemm& simd, int64_t batch, int threads) {
  const int64_t unit = Unit(s, simd, batch, threads);
  return (batch * s.Pixels() + unit - 1) / unit;
}

}  // namespace

size_t PackedConvForwardScratch(const PackedConvShape& s, int64_t batch, int threads) {
  const SimdGemm& simd = FindSimdGemm<float>();
  // With fewer threads there may be more units, so the maximum is reserved.
  const int workers = ParallelWorkers(threads, batch * s.Pixels(), 1);
  return ScratchBytes<float>(PackedWeightCount(s)) + ScratchBytes<int32_t>(s.Depth()) +
         ScratchBytes<float>(WorkerScratch(s, simd)) * static_cast<size_t>(workers) + kScratchSlack;
}

void PackedConvForward(const PackedConvShape& s, int64_t batch, int threads, const float* x,
                       const float* weight, const float* bias, FusedRelu relu, float* y,
                       std::span<std::byte> scratch) {
  if (batch == 0) return;
  const SimdGemm& simd = FindSimdGemm<float>();
  ScratchCutter cutter(scratch);
  float* packed = cutter.Take<float>(PackedWeightCount(s));
  int32_t* offsets = cutter.Take<int32_t>(s.Depth());
  FillOffsets(s, offsets);
  const int64_t parts = DepthParts(s);
  for (int64_t group = 0; group < s.groups; ++group) {
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t k0 = s.Depth() * part / parts;
      PackRows(simd, false, s.outputs, s.Depth() * (part + 1) / parts - k0, 1,
               weight + group * s.outputs * s.Depth() + k0, s.Depth(),
               packed + group * (s.outputs * s.Depth() + kPackSlack) + s.outputs * k0);
    }
  }
  const Shared shared{s, simd, x, packed, offsets, bias, relu, y};
  const int64_t unit = Unit(s, simd, batch, threads);
  const int64_t units = Units(s, simd, batch, threads);
  const int64_t piece =
      static_cast<int64_t>(ScratchBytes<float>(WorkerScratch(s, simd)) / sizeof(float));
  float* own = cutter.Take<float>(piece * ParallelWorkers(threads, units, 1));
  ParallelFor(threads, units, 1, [&](int64_t begin, int64_t end, int worker) {
    Worker(shared, own + worker * piece)
        .Run(begin * unit, std::min(end * unit, batch * s.Pixels()));
  });
}

}  // namespace crema
