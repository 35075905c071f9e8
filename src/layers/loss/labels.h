// Class labels, as losses and metrics read them: whole numbers stored as floating point.
#pragma once

#include <cstdint>
#include <optional>

#include "core/tensor.h"
#include "graph/layer.h"

namespace crema {

struct LabelRule {
  int64_t classes = 0;
  int64_t inner = 1;               // labels of one item: inner neighbours
  std::optional<int32_t> ignored;  // may lie outside the classes
};

// Throws kDataLoss, naming the item, when a label is not a whole number 0..classes-1 or the ignored
// one. Returns how many labels are not ignored. `labels` is input 1 of the layer, f32 or f64.
int64_t CheckLabels(const Layer& layer, const ConstTensorView& labels, const LabelRule& rule);

}  // namespace crema
