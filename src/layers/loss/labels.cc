#include "layers/loss/labels.h"

#include <cmath>
#include <string>

#include "core/dtype.h"
#include "core/error.h"
#include "core/strings.h"
#include "layers/layer_axis.h"

namespace crema {
namespace {

bool IsWhole(double value) { return value == std::trunc(value) && std::isfinite(value); }

[[noreturn]] void FailLabel(const Layer& layer, double label, int64_t index,
                            const LabelRule& rule) {
  std::string place = StrCat("item ", index / rule.inner);
  if (rule.inner > 1) place += StrCat(", position ", index % rule.inner);
  const std::string owner = rule.classes_from.empty() ? StrCat("\"", BottomName(layer, 0), "\"")
                                                      : std::string(rule.classes_from);
  const std::string classes =
      StrCat(owner, " has ", rule.classes, " classes (labels 0..", rule.classes - 1);
  Where where{.layer = layer.param().name()};
  where.blob = BottomName(layer, rule.input);
  if (!IsWhole(label)) {
    Fail(ErrorCode::kDataLoss,
         StrCat("label ", label, " at ", place, " is not a whole number; ", classes, ")"), where);
  }
  const bool past_end = label >= static_cast<double>(rule.classes);
  Fail(ErrorCode::kDataLoss,
       StrCat("label ", label, " at ", place, " but ", classes,
              past_end ? "; does your set start at 1?)" : "; is it an ignore_label?)"),
       where);
}

}  // namespace

std::string BottomName(const Layer& layer, size_t index) {
  const auto at = static_cast<int>(index);
  return at < layer.param().bottom_size() ? layer.param().bottom(at) : StrCat("bottom ", index);
}

int64_t CheckLabels(const Layer& layer, const ConstTensorView& labels, const LabelRule& rule) {
  int64_t counted = 0;
  DispatchFloat(labels.dtype(), [&]<typename T>(T) {
    const T* data = labels.data<T>();
    for (int64_t i = 0; i < labels.count(); ++i) {
      const auto label = static_cast<double>(data[i]);
      if (rule.ignored && label == *rule.ignored) continue;
      // Not the other way round: NaN must fail.
      if (!(label >= 0 && label < static_cast<double>(rule.classes)) ||
          label != std::trunc(label)) {
        FailLabel(layer, label, i, rule);
      }
      ++counted;
    }
  });
  return counted;
}

void CheckWholeNumbers(const Layer& layer, const ConstTensorView& values, size_t input) {
  DispatchFloat(values.dtype(), [&]<typename T>(T) {
    const T* data = values.data<T>();
    for (int64_t i = 0; i < values.count(); ++i) {
      if (IsWhole(static_cast<double>(data[i]))) continue;
      Where where{.layer = layer.param().name()};
      where.blob = BottomName(layer, input);
      Fail(ErrorCode::kDataLoss,
           StrCat("value ", data[i], " at item ", i, " is not a whole number"), where);
    }
  });
}

SoftmaxExtent ClassExtent(const Layer& layer, const Shape& scores, int64_t axis,
                          std::string_view field) {
  const int at = LayerAxis(layer, scores, axis, field);
  return {scores.count(0, at), scores[at], scores.count(at + 1)};
}

SoftmaxExtent RowExtent(const Layer& layer, const Shape& scores) {
  if (scores.axes() == 0)
    FailInputs(layer, "the first bottom is a scalar, but axis 0 is the batch");
  return {scores[0], scores.count(1), 1};
}

void CheckLabelShape(const Layer& layer, const Shape& scores, const SoftmaxExtent& extent,
                     const Shape& labels, bool same_batch) {
  const bool batch_fits = !same_batch || (labels.axes() > 0 && labels[0] == scores[0]);
  if (labels.count() == extent.outer * extent.inner && batch_fits) return;
  FailInputs(layer, StrCat("scores of shape ", ToString(scores), " with ", extent.classes,
                           " classes need ", extent.outer * extent.inner,
                           " labels, one for each position, but the labels have shape ",
                           ToString(labels)));
}

}  // namespace crema
