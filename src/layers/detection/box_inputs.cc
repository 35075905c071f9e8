#include "layers/detection/box_inputs.h"

#include <cmath>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/sample_error_context.h"

namespace crema {
namespace {

constexpr double kLargestWhole = 1e9;

bool IsFinite(const Box& box) {
  return std::isfinite(box.xmin) && std::isfinite(box.ymin) && std::isfinite(box.xmax) &&
         std::isfinite(box.ymax);
}

[[noreturn]] void FailObject(const Layer& layer, const LabelledObject& object, int64_t index,
                             const std::string& what) {
  Fail(ErrorCode::kDataLoss,
       StrCat("object ", index, " of ", SampleErrorContext(object.image), " ", what),
       {.layer = layer.param().name(), .sample = object.image});
}

template <typename T>
LabelledObject ReadObject(const Layer& layer, const T* row, int64_t index, const ObjectRule& rule) {
  LabelledObject object;
  object.image = WholeNumber(layer, row[0], rule.images, index, "item");
  object.label = WholeNumber(layer, row[1], rule.classes, index, "label", object.image);
  object.difficult = row[7] != T(0);
  object.box = {double{row[3]}, double{row[4]}, double{row[5]}, double{row[6]}};
  if (object.label == rule.background) {
    FailObject(
        layer, object, index,
        StrCat("has label ", object.label, ", which is the background (background_label_id)"));
  }
  if (!IsFinite(object.box)) {
    FailObject(layer, object, index, "has a corner that is not a number");
  }
  return object;
}

}  // namespace

BoxCode CodeOf(PriorBoxParameter::CodeType type) {
  switch (type) {
    case PriorBoxParameter::CENTER_SIZE:
      return BoxCode::kCenterSize;
    case PriorBoxParameter::CORNER_SIZE:
      return BoxCode::kCornerSize;
    default:
      return BoxCode::kCorner;
  }
}

SuppressionRule SuppressionOf(const Layer& layer, const NonMaximumSuppressionParameter& param,
                              const std::string& field) {
  if (!(param.nms_threshold() >= 0)) {
    FailField(layer, field + ".nms_threshold",
              StrCat("nms_threshold is ", param.nms_threshold(), ", expected 0 or more"));
  }
  if (!(param.eta() > 0 && param.eta() <= 1)) {
    FailField(layer, field + ".eta",
              StrCat("eta is ", param.eta(), ", expected more than 0 and at most 1"));
  }
  if (param.has_top_k() && param.top_k() < -1) {
    FailField(layer, field + ".top_k",
              StrCat("top_k is ", param.top_k(), ", expected -1 (all) or 0 or more"));
  }
  return {.threshold = param.nms_threshold(), .eta = param.eta()};
}

int64_t RequireClasses(const Layer& layer, bool given, int64_t classes, const std::string& field) {
  if (given && classes > 0) return classes;
  FailField(layer, field + ".num_classes",
            "num_classes must be given: how many classes there are, background included");
}

int64_t CountPriors(const Layer& layer, const Shape& shape) {
  if (shape.axes() >= 3 && shape[0] == 1 && shape[1] == 2 && shape.count(2) % 4 == 0) {
    return shape.count(2) / 4;
  }
  FailInputs(layer, StrCat("priors of shape ", ToString(shape),
                           ", expected 1 x 2 x 4 per prior, as PriorBox makes them"));
}

Priors ReadPriors(const ConstTensorView& blob, bool with_variance) {
  Priors priors;
  const auto count = static_cast<size_t>(blob.count() / 8);
  DispatchFloat(blob.dtype(), [&]<typename T>(T) {
    const T* box = blob.data<T>();
    const T* variance = box + 4 * count;
    for (size_t p = 0; p < count; ++p, box += 4, variance += 4) {
      priors.boxes.push_back({double{box[0]}, double{box[1]}, double{box[2]}, double{box[3]}});
      priors.variances.push_back(with_variance ? OffsetsAt(variance) : BoxOffsets{1, 1, 1, 1});
    }
  });
  return priors;
}

BoxSizes CheckPredictions(const Layer& layer, std::span<const BlobSpec> inputs, int64_t classes,
                          bool share_location) {
  const Shape& loc = inputs[0].shape;
  const Shape& conf = inputs[1].shape;
  if (loc.axes() < 1 || conf.axes() < 1 || loc[0] != conf[0]) {
    FailInputs(layer, StrCat("boxes of shape ", ToString(loc), " and scores of shape ",
                             ToString(conf), " must have the same batch on axis 0"));
  }
  const BoxSizes sizes{.images = loc[0],
                       .priors = CountPriors(layer, inputs[2].shape),
                       .box_classes = share_location ? 1 : classes,
                       .classes = classes};
  if (loc.count(1) != sizes.priors * sizes.box_classes * 4) {
    FailInputs(layer, StrCat(sizes.priors, " priors with ", sizes.box_classes, " boxes each need ",
                             sizes.priors * sizes.box_classes * 4,
                             " box values an image, but the boxes have shape ", ToString(loc)));
  }
  if (conf.count(1) != sizes.priors * classes) {
    FailInputs(layer, StrCat(sizes.priors, " priors with ", classes, " classes need ",
                             sizes.priors * classes, " scores an image, but the scores have shape ",
                             ToString(conf)));
  }
  return sizes;
}

int64_t CountRows(const Layer& layer, const Shape& shape, int64_t width, const std::string& what) {
  if (shape.axes() >= 2 && shape[shape.axes() - 1] == width) {
    return shape.count(0, shape.axes() - 1);
  }
  FailInputs(layer, StrCat(what, " of shape ", ToString(shape), ", expected rows of ", width,
                           " values (1 x 1 x rows x ", width, ")"));
}

int64_t WholeNumber(const Layer& layer, double value, int64_t end, int64_t row,
                    const std::string& what, int64_t sample) {
  const double limit = end < 0 ? kLargestWhole : static_cast<double>(end);
  if (value >= 0 && value < limit && value == std::trunc(value)) {
    return static_cast<int64_t>(value);
  }
  const std::string owner = sample < 0 ? std::string() : " of " + SampleErrorContext(sample);
  Fail(ErrorCode::kDataLoss,
       StrCat(what, " ", value, " in row ", row, owner, " is not a whole number from 0",
              end < 0 ? std::string() : StrCat(" to ", end - 1)),
       {.layer = layer.param().name(), .sample = sample});
}

std::vector<LabelledObject> ReadObjects(const Layer& layer, const ConstTensorView& blob,
                                        const ObjectRule& rule) {
  std::vector<LabelledObject> objects;
  DispatchFloat(blob.dtype(), [&]<typename T>(T) {
    const T* row = blob.data<T>();
    for (int64_t r = 0; r < blob.count() / 8; ++r, row += 8) {
      if (row[0] != T(-1)) objects.push_back(ReadObject(layer, row, r, rule));
    }
  });
  return objects;
}

}  // namespace crema
