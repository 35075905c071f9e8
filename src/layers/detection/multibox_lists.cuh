// Inputs and intermediate lists of MultiBoxLoss on GPUs.
#pragma once

#include <utility>

#include "crema.pb.h"
#include "layers/detection/box_lists.cuh"
#include "layers/detection/device_boxes.cuh"
#include "layers/detection/multibox_image.h"
#include "layers/detection/multibox_terms.h"

namespace crema {

// A box and an object that overlap. Pairs are matched in order of falling rank, then rising box
// index, then rising object index.
struct BoxPair {
  double rank;
  int64_t box;  // -1 means none
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

// Sizes of the lists.
struct MultiBoxSizes {
  BoxSizes boxes;
  int64_t objects = 0;     // rows of all images
  int64_t candidates = 0;  // most that suppression of an image reads; 0 without suppression

  CREMA_HOST_DEVICE int64_t matchings() const { return boxes.images * boxes.box_classes; }
};

// Lists in scratch memory; P is the number of priors, G that of objects.
struct MultiBoxLists {
  int32_t* objects;        // images x G: object rows of the image
  int64_t* object_counts;  // indexed by image
  int64_t* wrong_objects;  // one value: the number of invalid rows
  BoxPair* best;           // images x box classes x G: the best free box of each object
  int32_t* match;          // images x box classes x P: row of the object, or as in MatchBoxes
  double* overlap;         // same shape: the largest overlap with any object
  double* cost;            // images x P: mining cost; -infinity means excluded
  Ranked<double>* ranked;  // images x P
  uint8_t* negative;       // images x P
  Box* candidates;         // images x candidates, like `worst`
  double* worst;
  MultiBoxSums* sums;  // indexed by image
};

inline MultiBoxLists CutLists(const MultiBoxSizes& sizes, ScratchCutter* cutter) {
  const int64_t images = sizes.boxes.images;
  const int64_t priors = images * sizes.boxes.priors;
  MultiBoxLists lists{};
  const auto take = [&]<typename Element>(Element** list, int64_t count) {
    *list = cutter->Take<Element>(count);
  };
  take(&lists.objects, images * sizes.objects);
  take(&lists.object_counts, images);
  take(&lists.wrong_objects, 1);
  take(&lists.best, sizes.matchings() * sizes.objects);
  take(&lists.match, sizes.matchings() * sizes.boxes.priors);
  take(&lists.overlap, sizes.matchings() * sizes.boxes.priors);
  take(&lists.cost, priors);
  take(&lists.ranked, priors);
  take(&lists.negative, priors);
  take(&lists.candidates, images * sizes.candidates);
  take(&lists.worst, images * sizes.candidates);
  take(&lists.sums, images);
  return lists;
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

// One batch, passed to kernels.
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
  // Returns false if ReadObjects would reject the row.
  CREMA_HOST_DEVICE bool MakesSense(int64_t row) const {
    const float image = Object(row, 0), label = Object(row, 1);
    bool good = image >= 0 && image < static_cast<float>(sizes.boxes.images) &&
                image == std::trunc(image) && label >= 0 &&
                label < static_cast<float>(rule.classes) && label == std::trunc(label) &&
                label != static_cast<float>(rule.background);
    for (int64_t k = 3; k < 7; ++k) good = good && std::isfinite(Object(row, k));
    return good;
  }
  // Returns the index of the first match of a box class of an image.
  CREMA_HOST_DEVICE int64_t MatchAt(int64_t image, int64_t box_class) const {
    return (image * sizes.boxes.box_classes + box_class) * sizes.boxes.priors;
  }
  CREMA_HOST_DEVICE int64_t Match(int64_t image, int64_t box_class, int64_t p) const {
    return lists.match[MatchAt(image, box_class) + p];
  }
  // Returns the target class of prior p, like ClassOf of multibox_image.cc.
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

  // Returns the location loss of a matched prior. Calls slope(k, derivative) for its four offsets.
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

// For callers that need only the value of a loss.
struct NoSlope {
  template <typename Index>
  CREMA_HOST_DEVICE void operator()(Index, double) const {}
};

}  // namespace crema
