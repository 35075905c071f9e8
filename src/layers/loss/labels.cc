#include "layers/loss/labels.h"

#include <cmath>
#include <string>
#include <utility>

#include "core/dtype.h"
#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/sample_error_context.h"
#include "layers/layer_axis.h"

namespace crema {
namespace {

bool IsWhole(double value) { return value == std::trunc(value) && std::isfinite(value); }

// Returns the likely cause of a label out of range. Most segmentation data sets mark ignored pixels
// as 255.
std::string Hint(double label, int64_t classes) {
  if (label < 0 || (label == 255 && classes < 255)) return "; is it an ignore_label?";
  if (label == static_cast<double>(classes)) return "; does your set start at 1?";
  return "; correct the label, or use more outputs (num_output)";
}

[[noreturn]] void FailLabel(const Layer& layer, double label, int64_t index, const Shape& labels,
                            const LabelRule& rule) {
  // Items are on axis 0 of the labels, even if the scores have more axes before the classes.
  const int64_t each = labels.axes() > 1 ? labels.count(1) : rule.inner;
  const int64_t item = index / each;
  std::string place = SampleErrorContext(item);
  if (each > 1) place += StrCat(", position ", index % each);
  const std::string classes =
      rule.classes_from.empty()
          ? StrCat("\"", BottomName(layer, 0), "\" has ", rule.classes, " outputs")
          : StrCat(rule.classes_from, " is ", rule.classes);
  const std::string range = StrCat(classes, " (labels 0..", rule.classes - 1);
  if (!IsWhole(label)) {
    FailItem(layer, rule.input, item,
             StrCat("label ", label, " at ", place, " is not a whole number; ", range, ")"));
  }
  FailItem(layer, rule.input, item,
           StrCat("label ", label, " at ", place, " but ", range, Hint(label, rule.classes), ")"));
}

// Returns a hint if the labels are probabilities from mixup or cutmix and the layer cannot read
// them or expects another number of classes.
std::string MixedHint(const Shape& scores, const SoftmaxSize& sizes, const Shape& labels) {
  if (labels == scores) {
    return "; labels that mixup or cutmix made probabilities are for SoftmaxWithLoss alone: add "
           "include { phase: TEST } to this layer";
  }
  if (labels.axes() != 2 || labels[0] != sizes.outer || sizes.inner != 1) return "";
  return StrCat("; with mixup or cutmix, transform_param.augment_param.classes of the data layer, ",
                labels[1], " here, must be ", sizes.classes);
}

}  // namespace

std::string BottomName(const Layer& layer, size_t index) {
  const auto at = static_cast<int>(index);
  return at < layer.param().bottom_size() ? layer.param().bottom(at) : StrCat("bottom ", index);
}

void FailItem(const Layer& layer, size_t input, int64_t item, std::string message) {
  Where where{.layer = layer.param().name(), .sample = item};
  where.blob = BottomName(layer, input);
  Fail(ErrorCode::kDataLoss, std::move(message), where);
}

int64_t CheckLabels(const Layer& layer, const ConstTensorView& labels, const LabelRule& rule) {
  int64_t counted = 0;
  DispatchFloat(labels.dtype(), [&]<typename T>(T) {
    const T* data = labels.data<T>();
    for (int64_t i = 0; i < labels.count(); ++i) {
      const auto label = static_cast<double>(data[i]);
      if (rule.ignored && label == *rule.ignored) continue;
      // Written so that NaN fails.
      if (!(label >= 0 && label < static_cast<double>(rule.classes)) ||
          label != std::trunc(label)) {
        FailLabel(layer, label, i, labels.shape(), rule);
      }
      ++counted;
    }
  });
  return counted;
}

void CheckTargets(const Layer& layer, const ConstTensorView& targets) {
  DispatchFloat(targets.dtype(), [&]<typename T>(T) {
    const T* data = targets.data<T>();
    for (int64_t i = 0; i < targets.count(); ++i) {
      if (data[i] >= 0 && std::isfinite(data[i])) continue;
      const int64_t each = targets.shape().count(1);
      FailItem(layer, 1, i / each,
               StrCat("target ", data[i], " at ", SampleErrorContext(i / each), ", value ",
                      i % each, ", but targets of classes must be 0 or more"));
    }
  });
}

void CheckWholeNumbers(const Layer& layer, const ConstTensorView& values, size_t input) {
  DispatchFloat(values.dtype(), [&]<typename T>(T) {
    const T* data = values.data<T>();
    for (int64_t i = 0; i < values.count(); ++i) {
      if (IsWhole(static_cast<double>(data[i]))) continue;
      const int64_t item = values.shape().axes() > 1 ? i / values.shape().count(1) : i;
      FailItem(
          layer, input, item,
          StrCat("value ", data[i], " at ", SampleErrorContext(item), " is not a whole number"));
    }
  });
}

SoftmaxSize ClassSize(const Layer& layer, const Shape& scores, int64_t axis,
                      std::string_view field) {
  const int at = LayerAxis(layer, scores, axis, field);
  return {scores.count(0, at), scores[at], scores.count(at + 1)};
}

SoftmaxSize RowSize(const Layer& layer, const Shape& scores) {
  if (scores.axes() == 0)
    FailInputs(layer, "the first bottom is a scalar, but axis 0 is the batch");
  return {scores[0], scores.count(1), 1};
}

void CheckLabelShape(const Layer& layer, const Shape& scores, const SoftmaxSize& sizes,
                     const Shape& labels, bool same_batch) {
  const bool batch_fits = !same_batch || (labels.axes() > 0 && labels[0] == scores[0]);
  if (labels.count() == sizes.outer * sizes.inner && batch_fits) return;
  FailInputs(layer, StrCat("scores of shape ", ToString(scores), " with ", sizes.classes,
                           " classes need ", sizes.outer * sizes.inner,
                           " labels, one for each position, but the labels have shape ",
                           ToString(labels), MixedHint(scores, sizes, labels)));
}

}  // namespace crema
