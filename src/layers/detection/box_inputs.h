// What the detection layers share: box parameters, priors and objects as they stand in blobs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "crema.pb.h"
#include "graph/layer.h"
#include "math/box_suppression.h"
#include "math/boxes.h"

namespace crema {

BoxCode CodeOf(PriorBoxParameter::CodeType type);

// The rule that `param` describes; `field` is its path. Throws kInvalidArgument for a threshold
// below 0, an eta outside (0, 1] or a top_k below -1.
SuppressionRule SuppressionOf(const Layer& layer, const NonMaximumSuppressionParameter& param,
                              const std::string& field);

// How many classes `field` says. Throws kInvalidArgument when it is not given or 0.
int64_t RequireClasses(const Layer& layer, bool given, int64_t classes, const std::string& field);

struct Priors {
  std::vector<Box> boxes;
  std::vector<BoxOffsets> variances;
};

// How many priors a blob 1 x 2 x 4P (or N x ...) describes. Throws kInvalidArgument for others.
int64_t CountPriors(const Layer& layer, const Shape& shape);

// Row 0: boxes; row 1: variances, all 1 where `with_variance` is false.
Priors ReadPriors(const ConstTensorView& blob, bool with_variance);

struct BoxSizes {
  int64_t images = 0;
  int64_t priors = 0;
  int64_t box_classes = 1;  // boxes of one prior: 1 where classes share a location
  int64_t classes = 0;
};

// Inputs 0..2: loc N x 4 P L, conf N x P K, priors. Throws kInvalidArgument when they do not agree.
BoxSizes CheckPredictions(const Layer& layer, std::span<const BlobSpec> inputs, int64_t classes,
                          bool share_location);

// The four offsets of one predicted box.
template <typename T>
BoxOffsets OffsetsAt(const T* loc) {
  return {double{loc[0]}, double{loc[1]}, double{loc[2]}, double{loc[3]}};
}

// One row of objects (item, label, instance, xmin, ymin, xmax, ymax, difficult).
struct LabelledObject {
  int64_t image = 0;
  int64_t label = 0;
  bool difficult = false;
  Box box;
};

struct ObjectRule {
  int64_t images = -1;  // items are 0..images-1; -1: any number from 0
  int64_t classes = 0;
  int64_t background = -1;  // no object may have it; -1: none
};

// Throws kInvalidArgument unless the blob has rows of `width` values.
int64_t CountRows(const Layer& layer, const Shape& shape, int64_t width, const std::string& what);

// The rows whose item is not -1. Throws kDataLoss, naming the row, for an item or a label that is
// not a whole number in its range, and for coordinates that are not finite.
std::vector<LabelledObject> ReadObjects(const Layer& layer, const ConstTensorView& blob,
                                        const ObjectRule& rule);

// `value` as a whole number 0..end-1 (end -1: no end). Throws kDataLoss, naming row and column,
// and the sample of the batch that the row is about, where it is known.
int64_t WholeNumber(const Layer& layer, double value, int64_t end, int64_t row,
                    const std::string& what, int64_t sample = -1);

}  // namespace crema
