// Shared helpers of the detection layers: box parameters, and priors and objects stored in blobs.
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

// Returns the suppression rule of `param`; `field` is its path. Throws kInvalidArgument for a
// threshold below 0, an eta outside (0, 1] or a top_k below -1.
SuppressionRule SuppressionOf(const Layer& layer, const NonMaximumSuppressionParameter& param,
                              const std::string& field);

// Returns `classes`. Throws kInvalidArgument if num_classes of `field` is missing or 0.
int64_t RequireClasses(const Layer& layer, bool given, int64_t classes, const std::string& field);

struct Priors {
  std::vector<Box> boxes;
  std::vector<BoxOffsets> variances;
};

// Returns the number P of priors of a blob 1 x 2 x 4P (or N x ...). Throws kInvalidArgument for
// other shapes.
int64_t CountPriors(const Layer& layer, const Shape& shape);

// Row 0 holds the boxes, row 1 the variances; all variances are 1 if `with_variance` is false.
Priors ReadPriors(const ConstTensorView& blob, bool with_variance);

struct BoxSizes {
  int64_t images = 0;
  int64_t priors = 0;
  int64_t box_classes = 1;  // boxes per prior; 1 if classes share a location
  int64_t classes = 0;
};

// Returns the sizes of inputs 0..2: loc N x 4 P L, conf N x P K, priors. Throws kInvalidArgument if
// they do not agree.
BoxSizes CheckPredictions(const Layer& layer, std::span<const BlobSpec> inputs, int64_t classes,
                          bool share_location);

// Returns the four offsets of one predicted box.
template <typename T>
BoxOffsets OffsetsAt(const T* loc) {
  return {double{loc[0]}, double{loc[1]}, double{loc[2]}, double{loc[3]}};
}

// One row of objects: item, label, instance, xmin, ymin, xmax, ymax, difficult.
struct LabelledObject {
  int64_t image = 0;
  int64_t label = 0;
  bool difficult = false;
  Box box;
};

struct ObjectRule {
  int64_t images = -1;  // items are 0..images-1; -1 means no upper limit
  int64_t classes = 0;
  int64_t background = -1;  // label that no object may have; -1 means none
};

// Returns the number of rows. Throws kInvalidArgument unless the blob has rows of `width` values.
int64_t CountRows(const Layer& layer, const Shape& shape, int64_t width, const std::string& what);

// Returns the rows whose item is not -1. Throws kDataLoss, naming the row, for an item or a label
// that is not a whole number in its range, and for coordinates that are not finite.
std::vector<LabelledObject> ReadObjects(const Layer& layer, const ConstTensorView& blob,
                                        const ObjectRule& rule);

// Returns `value` as a whole number 0..end-1; end -1 means no limit. Throws kDataLoss, naming row
// and column, and the sample of the batch if it is known (not -1).
int64_t WholeNumber(const Layer& layer, double value, int64_t end, int64_t row,
                    const std::string& what, int64_t sample = -1);

}  // namespace crema
