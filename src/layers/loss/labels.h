// Class labels, as losses and metrics read them: whole numbers stored as floating point.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/tensor.h"
#include "graph/layer.h"
#include "math/softmax.h"

namespace crema {

// The name of a bottom, for messages.
std::string BottomName(const Layer& layer, size_t index);

struct LabelRule {
  int64_t classes = 0;
  int64_t inner = 1;                    // labels of one item: inner neighbours
  std::optional<int32_t> ignored = {};  // may lie outside the classes
  // What has that many classes, for messages; empty: input 0.
  std::string_view classes_from = {};
  size_t input = 1;  // which input of the layer the labels are
};

// Throws kDataLoss, naming the sample, when a label is not a whole number 0..classes-1 or the
// ignored one. Returns how many labels are not ignored. `labels` are f32 or f64.
int64_t CheckLabels(const Layer& layer, const ConstTensorView& labels, const LabelRule& rule);

// Throws kDataLoss, naming the sample, when one of the targets of classes (input 1, the batch on
// axis 0) is not a finite number of 0 or more.
void CheckTargets(const Layer& layer, const ConstTensorView& targets);

// Throws kDataLoss, naming the sample, when a value of input `input` is not a whole number.
void CheckWholeNumbers(const Layer& layer, const ConstTensorView& values, size_t input);

// The classes on axis `axis` and the positions before and behind it; an axis that is outside is an
// error of `field`.
SoftmaxSize ClassSize(const Layer& layer, const Shape& scores, int64_t axis,
                      std::string_view field);
// Items on axis 0, each with its values as classes. FailInputs for a scalar.
SoftmaxSize RowSize(const Layer& layer, const Shape& scores);

// FailInputs unless there is one label for each position, in any shape; with `same_batch`, axis 0
// of both must agree as well.
void CheckLabelShape(const Layer& layer, const Shape& scores, const SoftmaxSize& extent,
                     const Shape& labels, bool same_batch);

}  // namespace crema
