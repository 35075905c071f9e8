// Weight gradient: dy times patches, summed over pixels: the panels hold 32 patch inputs of up to
// 256 pixels. Data gradient: transposed weights times dy, 32 pixels at a time, whose results are
// added to the image positions of the patches.
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

constexpr int64_t kPixelBlock = 256;  // a panel of this size stays in the first-level cache

// Returns the number of images processed together, so that small ones fill a block of pixels.
int64_t ImageBlock(const PackedConvShape& s, int64_t batch) {
  return std::clamp<int64_t>(kPixelBlock / s.Pixels(), 1, std::min<int64_t>(16, batch));
}

// A run of patch inputs that are contiguous in the image too.
struct InputRun {
  int32_t from;
  int16_t column;
  int16_t length;
};
// Returns the number of runs, at most one for each patch input; panels start new ones.
int64_t FillInputRuns(const PackedConvShape& s, std::span<const int32_t> offsets, int64_t columns,
                      InputRun* runs) {
  int64_t count = 0;
  for (int64_t k = 0; k < s.Depth(); ++k) {
    const int32_t offset = offsets[static_cast<size_t>(k)];
    const bool goes_on = k % columns != 0 && offset == offsets[static_cast<size_t>(k - 1)] + 1;
    if (goes_on) {
      ++runs[count - 1].length;
    } else {
      runs[count++] = {offset, static_cast<int16_t>(k % columns), 1};
    }
  }
  return count;
}

// Sizes of the pieces of scratch, in elements.
struct Layout {
  Layout(const PackedConvShape& s, const SimdGemm& simd, int64_t batch, FusedRelu relu)
      : images(ImageBlock(s, batch)),
        pixels(std::min(kPixelBlock, images * s.Pixels())),
        copies(s.NeedsCopy() ? images * s.ViewImage() + kReadSlack : 0),
        masked(relu.on ? images * s.OutImage() : 0),
        rows(s.outputs * pixels + kPackSlack),
        panel(std::max(pixels, s.outputs) * simd.columns + kPackSlack),
        columns(s.Depth() * simd.columns),
        data(s.NeedsCopy() ? s.ViewImage() : 0),
        grads(s.WeightCount() + s.groups * s.outputs),
        worker(copies + masked + rows + panel + columns + data + grads),
        weights(s.WeightCount() + s.groups * kPackSlack) {}

  int64_t images, pixels;
  int64_t copies;   // images with padding
  int64_t masked;   // dy, masked by the ReLU
  int64_t rows;     // dy, packed as rows
  int64_t panel;    // patches, or dy, packed as columns
  int64_t columns;  // gradients of the patches of some pixels
  int64_t data;     // gradient of one image with padding
  int64_t grads;    // partial sums for weights and bias
  int64_t worker;   // all of these
  int64_t weights;  // transposed and packed, for all workers
};

struct Shared {
  const PackedConvShape& shape;
  const SimdGemm& simd;
  const Layout& layout;
  const ConvGrads& grads;
  FusedRelu relu;
  int64_t batch;
  const float* weight;  // packed; null: no data gradient
  std::span<const int32_t> offsets;
  std::span<const InputRun> runs;
};

// panel[pixel, column..] = kCount patch inputs from `from` on, for each pixel. The size is fixed,
// because a copy of unknown size takes longer than one of eight elements.
template <int kCount>
[[gnu::always_inline]] inline void FillPiece(const PackedConvShape& s, const float* from,
                                             int64_t first, int64_t count, int64_t panel_columns,
                                             float* panel) {
  const int64_t stride = s.w.stride;
  ForPixelRuns(s, first, count, [&](int64_t, int64_t offset, int64_t, int64_t length) {
    const float* patch = from + offset;
    for (int64_t i = 0; i < length; ++i, panel += panel_columns, patch += stride) {
      std::memcpy(panel, patch, kCount * sizeof(float));
    }
  });
}

// panel[pixel, column] = patch input, for the inputs of `runs`. If reading past the image is
// allowed, runs are copied in eights or fours: surplus elements are overwritten by the next run.
// They must not reach the inputs of the next pixel, which are already written.
CREMA_MULTIVERSION void FillPatches(const PackedConvShape& s, std::span<const InputRun> runs,
                                    bool may_read_past, const float* image, int64_t first,
                                    int64_t count, int64_t panel_columns, float* panel) {
  for (const InputRun& run : runs) {
    const float* from = image + run.from;
    float* to = panel + run.column;
    const int length = run.length;
    int i = 0;
    const int written = (length + 3) / 4 * 4;
    if (may_read_past && run.column + written <= panel_columns) {
      for (; i + 4 < length; i += 8) {
        FillPiece<8>(s, from + i, first, count, panel_columns, to + i);
      }
      if (i < length) FillPiece<4>(s, from + i, first, count, panel_columns, to + i);
      continue;
    }
    for (; i + 8 <= length; i += 8) {
      FillPiece<8>(s, from + i, first, count, panel_columns, to + i);
    }
    for (; i + 4 <= length; i += 4) {
      FillPiece<4>(s, from + i, first, count, panel_columns, to + i);
    }
    for (; i < length; ++i) FillPiece<1>(s, from + i, first, count, panel_columns, to + i);
  }
}

// Adds the gradients of the patches of a panel to the image positions of the patches.
CREMA_MULTIVERSION void AddPatches(const PackedConvShape& s, std::span<const int32_t> offsets,
                                   int64_t first, int64_t count, const float* columns,
                                   int64_t panel_columns, float* image) {
  struct Run {
    int64_t to, column, length;
  };
  std::array<Run, SimdGemm::kMaxColumns> runs;
  size_t run_count = 0;
  ForPixelRuns(s, first, count, [&](int64_t, int64_t to, int64_t column, int64_t length) {
    runs[run_count++] = {to, column, length};
  });
  const int64_t stride = s.w.stride;
  for (const int32_t offset : offsets) {
    for (size_t r = 0; r < run_count; ++r) {
      float* to = image + offset + runs[r].to;
      const float* from = columns + runs[r].column;
      const int64_t length = runs[r].length;
      if (stride == 1) {
        AddExactly(from, length, to);
      } else {
        for (int64_t i = 0; i < length; ++i) to[i * stride] += from[i];
      }
    }
    columns += panel_columns;
  }
}

// The work of one thread.
class Worker {
 public:
  Worker(const Shared& shared, float* memory, bool first)
      : shared_(shared),
        s_(shared.shape),
        simd_(shared.simd),
        dweight_(memory),
        dbias_(dweight_ + s_.WeightCount()),
        copies_(memory + shared.layout.grads),
        masked_(copies_ + shared.layout.copies),
        rows_(masked_ + shared.layout.masked),
        panel_(rows_ + shared.layout.rows),
        columns_(panel_ + shared.layout.panel),
        data_(columns_ + shared.layout.columns) {
    // Unused columns of a panel are multiplied too: denormal numbers there would be slow.
    std::fill_n(panel_, shared.layout.panel, 0.0F);
    // The first worker adds to the result directly, the others to partial sums.
    if (first) {
      dweight_ = shared.grads.dweight;
      dbias_ = shared.grads.dbias;
    } else {
      std::fill_n(memory, shared.layout.grads, 0.0F);
    }
  }

  void Run(int64_t begin, int64_t end) {
    for (int64_t image = begin; image < end; image += shared_.layout.images) {
      RunImages(image, std::min(shared_.layout.images, end - image));
    }
  }

 private:
  void RunImages(int64_t first, int64_t images) {
    const ConvGrads& g = shared_.grads;
    const float* dy = g.dy + first * s_.OutImage();
    if (shared_.relu.on) {
      MaskByOutput(images * s_.OutImage(), shared_.relu.slope, g.y + first * s_.OutImage(), dy,
                   masked_);
      dy = masked_;
    }
    if (g.dbias != nullptr) {
      for (int64_t i = 0; i < images; ++i) {
        AddRowSums(s_.groups * s_.outputs, s_.Pixels(), dy + i * s_.OutImage(), dbias_);
      }
    }
    if (g.dweight != nullptr) WeightGradient(first, images, dy);
    if (g.dx == nullptr) return;
    for (int64_t i = 0; i < images; ++i) {
      DataGradient(dy + i * s_.OutImage(), g.dx + (first + i) * s_.InImage());
    }
  }

  void WeightGradient(int64_t first, int64_t images, const float* dy) {
    const float* view = shared_.grads.x + first * s_.InImage();
    if (s_.NeedsCopy()) {
      for (int64_t i = 0; i < images; ++i) {
        CopyWithPadding(s_, view + i * s_.InImage(), copies_ + i * s_.ViewImage());
      }
      view = copies_;
    }
    const bool may_read_past = s_.NeedsCopy() || first + images < shared_.batch;
    const int64_t all = images * s_.Pixels();
    const int64_t parts = (all + kPixelBlock - 1) / kPixelBlock;
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t begin = all * part / parts;
      const int64_t count = all * (part + 1) / parts - begin;
      for (int64_t group = 0; group < s_.groups; ++group) {
        PackGradRows(dy + group * s_.outputs * s_.Pixels(), begin, count);
        MultiplyPatches(group, view + group * s_.channels * s_.h.reach * s_.w.reach, begin, count,
                        may_read_past);
      }
    }
  }

  // Packs dy of pixels [begin, begin + count) as rows, in the order of PackRows.
  void PackGradRows(const float* dy, int64_t begin, int64_t count) {
    const int64_t tiles = RowTiles(simd_, s_.outputs);
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t row = RowTile(s_.outputs, tiles, t);
      const int64_t rows = RowTile(s_.outputs, tiles, t + 1) - row;
      for (int64_t done = 0; done < count;) {
        const int64_t pixel = (begin + done) % s_.Pixels();
        const int64_t length = std::min(count - done, s_.Pixels() - pixel);
        const float* from = dy + (begin + done) / s_.Pixels() * s_.OutImage();
        PackRows(simd_, false, rows, length, 1, from + row * s_.Pixels() + pixel, s_.Pixels(),
                 rows_ + row * count + done * rows);
        done += length;
      }
    }
  }

  void MultiplyPatches(int64_t group, const float* view, int64_t begin, int64_t count,
                       bool may_read_past) {
    GemmTile tile;
    tile.depth = count;
    tile.b = panel_;
    tile.b_stride = simd_.columns;
    tile.c_stride = s_.Depth();
    tile.accumulate = true;
    float* dweight = dweight_ + group * s_.outputs * s_.Depth();
    size_t run = 0;
    for (int64_t k0 = 0; k0 < s_.Depth(); k0 += simd_.columns) {
      tile.columns = static_cast<int>(std::min<int64_t>(simd_.columns, s_.Depth() - k0));
      const size_t first_run = run++;
      while (run < shared_.runs.size() && shared_.runs[run].column != 0) ++run;
      FillPanel(view, k0, begin, count, tile.columns,
                shared_.runs.subspan(first_run, run - first_run), may_read_past);
      const int64_t tiles = RowTiles(simd_, s_.outputs);
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t row = RowTile(s_.outputs, tiles, t);
        tile.a = rows_ + row * count;
        tile.c = dweight + row * s_.Depth() + k0;
        simd_.run(static_cast<int>(RowTile(s_.outputs, tiles, t + 1) - row), tile);
      }
    }
  }

  void FillPanel(const float* view, int64_t k0, int64_t begin, int64_t count, int columns,
                 std::span<const InputRun> runs, bool may_read_past) {
    for (int64_t done = 0; done < count;) {
      const int64_t pixel = (begin + done) % s_.Pixels();
      const int64_t length = std::min(count - done, s_.Pixels() - pixel);
      const float* image = view + (begin + done) / s_.Pixels() * s_.ViewImage();
      float* panel = panel_ + done * simd_.columns;
      if (s_.IsPointwise()) {
        PackColumns(simd_, true, length, columns, image + k0 * s_.Pixels() + pixel, s_.Pixels(),
                    panel);
      } else {
        FillPatches(s_, runs, may_read_past, image, pixel, length, simd_.columns, panel);
      }
      done += length;
    }
  }

  void DataGradient(const float* dy, float* dx) {
    float* view = s_.NeedsCopy() ? data_ : dx;
    if (!s_.IsPointwise()) std::fill_n(view, s_.ViewImage(), 0.0F);
    for (int64_t group = 0; group < s_.groups; ++group) {
      DataGradientOfGroup(group, dy + group * s_.outputs * s_.Pixels(),
                          view + group * s_.channels * s_.h.reach * s_.w.reach);
    }
    if (s_.NeedsCopy()) CopyWithoutPadding(s_, data_, dx);
  }

  void DataGradientOfGroup(int64_t group, const float* dy, float* view) {
    GemmTile tile;
    tile.depth = s_.outputs;
    const float* weight = shared_.weight + group * (s_.outputs * s_.Depth() + kPackSlack);
    const int64_t tiles = RowTiles(simd_, s_.Depth());
    for (int64_t pixel = 0; pixel < s_.Pixels(); pixel += simd_.columns) {
      tile.columns = static_cast<int>(std::min<int64_t>(simd_.columns, s_.Pixels() - pixel));
      tile.b = dy + pixel;
      tile.b_stride = s_.Pixels();
      if (tile.columns < simd_.columns) {
        PackColumns(simd_, false, s_.outputs, tile.columns, dy + pixel, s_.Pixels(), panel_);
        tile.b = panel_;
        tile.b_stride = simd_.columns;
      }
      tile.c_stride = s_.IsPointwise() ? s_.Pixels() : simd_.columns;
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t row = RowTile(s_.Depth(), tiles, t);
        tile.a = weight + row * s_.outputs;
        tile.c = (s_.IsPointwise() ? view + pixel : columns_) + row * tile.c_stride;
        simd_.run(static_cast<int>(RowTile(s_.Depth(), tiles, t + 1) - row), tile);
      }
      if (!s_.IsPointwise()) {
        AddPatches(s_, shared_.offsets, pixel, tile.columns, columns_, simd_.columns, view);
      }
    }
  }

  const Shared& shared_;
  const PackedConvShape& s_;
  const SimdGemm& simd_;
  float* dweight_;
  float* dbias_;
  float* const copies_;
  float* const masked_;
  float* const rows_;
  float* const panel_;
  float* const columns_;
  float* const data_;
};

int64_t Lines(int64_t floats) {
  return static_cast<int64_t>(ScratchBytes<float>(floats) / sizeof(float));
}

}  // namespace

size_t PackedConvBackwardScratch(const PackedConvShape& s, int64_t batch, int threads,
                                 FusedRelu relu) {
  if (batch == 0) return 0;
  const Layout layout(s, FindSimdGemm<float>(), batch, relu);
  return ScratchBytes<float>(layout.weights) + ScratchBytes<int32_t>(s.Depth()) +
         ScratchBytes<InputRun>(s.Depth()) +
         ScratchBytes<float>(Lines(layout.worker) * ParallelWorkers(threads, batch, 1)) +
         kScratchSlack;
}

void PackedConvBackward(const PackedConvShape& s, int64_t batch, int threads, FusedRelu relu,
                        const ConvGrads& grads, std::span<std::byte> scratch) {
  if (batch == 0) return;
  const SimdGemm& simd = FindSimdGemm<float>();
  const Layout layout(s, simd, batch, relu);
  ScratchCutter cutter(scratch);
  float* weight = cutter.Take<float>(layout.weights);
  int32_t* offsets = cutter.Take<int32_t>(s.Depth());
  InputRun* runs = cutter.Take<InputRun>(s.Depth());
  FillOffsets(s, offsets);
  const std::span<const int32_t> all_offsets(offsets, static_cast<size_t>(s.Depth()));
  const int64_t run_count = FillInputRuns(s, all_offsets, simd.columns, runs);
  for (int64_t g = 0; g < s.groups && grads.dx != nullptr; ++g) {
    const int64_t first = g * s.outputs * s.Depth();
    PackRows(simd, true, s.Depth(), s.outputs, 1, grads.weight + first, s.Depth(),
             weight + first + g * kPackSlack);
  }
  const int workers = ParallelWorkers(threads, batch, 1);
  const int64_t piece = Lines(layout.worker);
  float* memory = cutter.Take<float>(piece * workers);
  const Shared shared{s,      simd,        layout,
                      grads,  relu,        batch,
                      weight, all_offsets, {runs, static_cast<size_t>(run_count)}};
  ParallelFor(threads, batch, 1, [&](int64_t begin, int64_t end, int worker) {
    Worker(shared, memory + worker * piece, worker == 0).Run(begin, end);
  });
  // In the order of the workers: the same bits for the same number of threads.
  for (int i = 1; i < workers; ++i) {
    const float* partial = memory + i * piece;
    if (grads.dweight != nullptr) AddColumnSums(1, s.WeightCount(), partial, grads.dweight);
    if (grads.dbias != nullptr) {
      AddColumnSums(1, s.groups * s.outputs, partial + s.WeightCount(), grads.dbias);
    }
  }
}

}  // namespace crema
