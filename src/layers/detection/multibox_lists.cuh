// What MultiBoxLoss keeps of a batch on GPUs, from kernel to kernel, and what it reads.
#pragma once

#include <utility>

#include "crema.pb.h"
#include "layers/detection/box_lists.cuh"
#include "layers/detection/device_boxes.cuh"
#include "layers/detection/multibox_image.h"
#include "layers/detection/multibox_terms.h"

namespace crema {

// A prior and an object that overlap. The first one to match has the larger rank, then the first
// prior, then the first object.
struct BoxPair {
  double rank;
  int64_t box;  // -1: none
  int64_t object;
};

CREMA_HOST_DEVICE inline BoxPair BetterPair(const BoxPair& a, const BoxPair& b) {
  if (a.box < 0 || b.box < 0) return a.box < 0 ? b : a;
  if (a.rank != b.rank) return a.rank > b.rank ? a : b;
  if (a.box != b.box) return a.box < b.box ? a : b;
  return a.object < b.object ? a : b;
}

#ifdef __CUDACC__
__device__ inline BoxPair OfLane(BoxPair value, int mask) {
  return {OfLane(value.rank, mask), OfLane(value.box, mask), OfLane(value.object, mask)};
}
#endif

// Extents of the lists.
struct MultiBoxSizes {
  BoxSizes boxes;
  int64_t objects = 0;     // rows, of all images
  int64_t candidates = 0;  // of an image, that suppression sees at most; 0: there is none

  CREMA_HOST_DEVICE int64_t matchings() const { return boxes.images * boxes.box_classes; }
};

// P priors, G objects.
struct MultiBoxLists {
  int32_t* objects;        // images x G: rows of the image
  int64_t* object_counts;  // by image
  int64_t* wrong_objects;  // one number: rows that make no sense
  BoxPair* best;           // images x box classes x G: the best free prior of an object
  int32_t* match;          // images x box classes x P: row of the object, or as MatchBoxes has it
  double* overlap;         // the same: the largest with any object
  double* cost;            // images x P: what mining goes by; -infinity: not taken
  Ranked<double>* ranked;  // images x P
  uint8_t* negative;       // images x P
  Box* candidates;         // images x candidates, as `worst`
  double* worst;
  MultiBoxSums* sums;  // by image
};

// piece(pointer, count) for each list.
template <typename Piece>
void EachList(const MultiBoxSizes& sizes, MultiBoxLists* lists, const Piece& piece) {
  const int64_t images = sizes.boxes.images;
  const int64_t priors = images * sizes.boxes.priors;
  piece(&lists->objects, images * sizes.objects);
  piece(&lists->object_counts, images);
  piece(&lists->wrong_objects, 1);
  piece(&lists->best, sizes.matchings() * sizes.objects);
  piece(&lists->match, sizes.matchings() * sizes.boxes.priors);
  piece(&lists->overlap, sizes.matchings() * sizes.boxes.priors);
  piece(&lists->cost, priors);
  piece(&lists->ranked, priors);
  piece(&lists->negative, priors);
  piece(&lists->candidates, images * sizes.candidates);
  piece(&lists->worst, images * sizes.candidates);
  piece(&lists->sums, images);
}

inline MultiBoxSizes SizesOf(const MultiBoxRule& rule, const BoxSizes& boxes,
                             const Shape& objects) {
  MultiBoxSizes sizes{.boxes = boxes, .objects = objects.count() / 8};
  if (rule.mining == MultiBoxLossParameter::HARD_EXAMPLE && rule.suppression) {
    const int64_t most = rule.suppression_top_k;
    sizes.candidates = most < 0 ? boxes.priors : std::min(most, boxes.priors);
  }
  return sizes;
}

// One batch, as kernels are given it.
template <typename T>
struct MultiBoxBatch {
  MultiBoxRule rule;
  MultiBoxSizes sizes;
  MultiBoxLists lists;
  DevicePredictions<T> from;
  const T* objects;
  bool use_difficult;

  CREMA_HOST_DEVICE float Object(int64_t row, int64_t column) const {
    return ToFloat(objects[8 * row + column]);
  }
  CREMA_HOST_DEVICE Box ObjectBox(int64_t row) const { return CornersAt(objects + 8 * row + 3); }
  CREMA_HOST_DEVICE int64_t Label(int64_t row) const {
    return static_cast<int64_t>(Object(row, 1));
  }
  // What ReadObjects refuses does not.
  CREMA_HOST_DEVICE bool MakesSense(int64_t row) const {
    const float image = Object(row, 0), label = Object(row, 1);
    bool good = image >= 0 && image < static_cast<float>(sizes.boxes.images) &&
                image == std::trunc(image) && label >= 0 &&
                label < static_cast<float>(rule.classes) && label == std::trunc(label) &&
                label != static_cast<float>(rule.background);
    for (int64_t k = 3; k < 7; ++k) good = good && std::isfinite(Object(row, k));
    return good;
  }
  // Where the matches of a class of boxes of an image begin.
  CREMA_HOST_DEVICE int64_t MatchAt(int64_t image, int64_t box_class) const {
    return (image * sizes.boxes.box_classes + box_class) * sizes.boxes.priors;
  }
  CREMA_HOST_DEVICE int64_t Match(int64_t image, int64_t box_class, int64_t p) const {
    return lists.match[MatchAt(image, box_class) + p];
  }
  // The class that prior p should have, as ClassOf of multibox_image.cc.
  CREMA_HOST_DEVICE int64_t ClassOf(int64_t image, int64_t p) const {
    int64_t label = rule.background;
    for (int64_t c = 0; c < sizes.boxes.box_classes; ++c) {
      const int64_t row = Match(image, c, p);
      if (row >= 0) label = rule.agnostic ? rule.background + 1 : Label(row);
    }
    return label;
  }
  CREMA_HOST_DEVICE bool IsMatched(int64_t image, int64_t p) const {
    bool matched = false;
    for (int64_t c = 0; c < sizes.boxes.box_classes; ++c) {
      matched = matched || Match(image, c, p) >= 0;
    }
    return matched;
  }
  CREMA_HOST_DEVICE bool Counts(int64_t image, int64_t p) const {
    return IsMatched(image, p) || lists.negative[image * sizes.boxes.priors + p] != 0;
  }

  // slope(k, derivative) of the four offsets of a prior that is matched.
  template <typename Slope>
  CREMA_HOST_DEVICE double LocLoss(int64_t image, int64_t box_class, int64_t p,
                                   const Slope& slope) const {
    const Box object = ObjectBox(Match(image, box_class, p));
    const BoxOffsets target = Encode(rule.code, object, from.Prior(p), from.Variance(p));
    const BoxOffsets outside =
        rule.bp_inside ? OutsideOf(from.Predicted(image, p, box_class)) : BoxOffsets{};
    return OffsetsLoss(FourAt(from.loc + from.LocAt(image, p, box_class)), target, outside,
                       rule.smooth_l1, slope);
  }
  template <typename Slope>
  CREMA_HOST_DEVICE double ConfLoss(int64_t image, int64_t p, int64_t label, bool with_slopes,
                                    const Slope& slope) const {
    const T* scores = from.Scores(image, p);
    const auto score = [=](int64_t c) { return static_cast<double>(ToFloat(scores[c])); };
    return rule.logistic ? LogisticClassLoss(rule.classes, label, score, with_slopes, slope)
                         : SoftmaxClassLoss(rule.classes, label, score, with_slopes, slope);
  }
};

// Where only the value of a loss is wanted.
struct NoSlope {
  template <typename Index>
  CREMA_HOST_DEVICE void operator()(Index, double) const {}
};

}  // namespace crema
