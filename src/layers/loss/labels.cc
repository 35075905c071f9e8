#include "layers/loss/labels.h"

#include <cmath>
#include <string>

#include "core/dtype.h"
#include "core/error.h"
#include "core/strings.h"

namespace crema {
namespace {

std::string BottomName(const Layer& layer, int index) {
  return index < layer.param().bottom_size() ? layer.param().bottom(index)
                                             : StrCat("bottom ", index);
}

[[noreturn]] void FailLabel(const Layer& layer, double label, int64_t index,
                            const LabelRule& rule) {
  std::string place = StrCat("item ", index / rule.inner);
  if (rule.inner > 1) place += StrCat(", position ", index % rule.inner);
  const std::string classes = StrCat("\"", BottomName(layer, 0), "\" has ", rule.classes,
                                     " classes (labels 0..", rule.classes - 1);
  Where where{.layer = layer.param().name()};
  where.blob = BottomName(layer, 1);
  if (label != std::trunc(label) || !std::isfinite(label)) {
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

}  // namespace crema
