// Lists of boxes on GPUs: non-maximum suppression by a team, and packing of the rows of each image.
#pragma once

#include "layers/gpu_implementation.h"
#include "math/box_suppression.h"
#include "math/cuda/team_lists.cuh"
#include "math/scratch.h"

namespace crema {

// Non-maximum suppression of `boxes`, sorted best first. Calls keep(i, place) in one thread for
// each kept box, in order. Returns the number of kept boxes. `worst` has room for `count` values:
// the largest overlap of each box with a better, kept box. Makes one pass over the boxes for each
// kept one.
template <typename Keep>
CREMA_HOST_DEVICE int64_t SuppressBoxes(const Team& team, int64_t count, const Box* boxes,
                                        const SuppressionRule& rule, double* worst,
                                        const Keep& keep) {
  team.For(count, [&](int64_t i) { worst[i] = 0; });
  double threshold = rule.threshold;
  int64_t kept = 0;
  for (int64_t i = 0; i < count && (rule.most < 0 || kept < rule.most); ++i) {
    if (kept > 0 && !(worst[i] <= threshold)) continue;  // drops NaN too
    const Box box = boxes[i];
    team.For(1, [&](int64_t) { keep(i, kept); });
    ++kept;
    if (rule.eta < 1 && threshold > 0.5) threshold *= rule.eta;
    team.For(count - i - 1, [&](int64_t k) {
      const int64_t j = i + 1 + k;
      const double overlap = Overlap(boxes[j], box, rule.units);
      if (worst[j] == worst[j] && !(overlap <= worst[j])) worst[j] = overlap;
    });
  }
  return kept;
}

// Row counts of each image, `counts[image]` of at most `most`.
struct ImageRows {
  int64_t images = 0;
  int64_t most = 0;
  int64_t* counts = nullptr;  // indexed by image
  int64_t* starts = nullptr;  // indexed by image; the last element is the total

  static ImageRows Cut(ScratchCutter* cutter, int64_t images, int64_t most) {
    ImageRows rows{.images = images, .most = most};
    rows.counts = cutter->Take<int64_t>(images);
    rows.starts = cutter->Take<int64_t>(images + 1);
    return rows;
  }
};

[[maybe_unused]] static void FillStarts(const CudaQueue& queue, const ImageRows& all) {
  const ImageRows rows = all;
  ForElements(queue, "RowStarts", 1, [=] CREMA_HOST_DEVICE(int64_t) {
    rows.starts[0] = 0;
    for (int64_t n = 0; n < rows.images; ++n) rows.starts[n + 1] = rows.starts[n] + rows.counts[n];
  });
}

// Packs rows: image n has its rows in `from` starting at n * most, and `to` has no gaps.
template <typename T>
static void PackRows(const CudaQueue& queue, const ImageRows& all, int64_t columns, const T* from,
                     T* to) {
  const ImageRows rows = all;
  ForElements(queue, "PackRows", rows.images * rows.most * columns,
              [=] CREMA_HOST_DEVICE(int64_t i) {
                const int64_t n = i / columns / rows.most;
                const int64_t r = i / columns % rows.most;
                if (r >= rows.counts[n]) return;
                to[(rows.starts[n] + r) * columns + i % columns] = from[i];
              });
}

// Without any row, writes one for each image: its index, then -1.
template <typename T>
static void WriteNoDetection(const CudaQueue& queue, const ImageRows& all, int64_t columns,
                             T* out) {
  const ImageRows rows = all;
  ForElements(queue, "NoDetection", rows.images * columns, [=] CREMA_HOST_DEVICE(int64_t i) {
    if (rows.starts[rows.images] > 0) return;
    out[i] = FromFloat<T>(i % columns == 0 ? static_cast<float>(i / columns) : -1);
  });
}

// Returns the total number of rows. Waits for the device.
inline int64_t ReadRowCount(CudaQueue& queue, const ImageRows& rows) {
  int64_t count = 0;
  queue.Download(&count, rows.starts + rows.images, sizeof(count));
  return count;
}

}  // namespace crema
