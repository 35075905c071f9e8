// Class labels as losses and metrics read them: integers stored as floating point.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/tensor.h"
#include "graph/layer.h"
#include "math/softmax.h"

namespace crema {

// Returns the name of a bottom, for messages.
std::string BottomName(const Layer& layer, size_t index);

struct LabelRule {
  int64_t classes = 0;
  int64_t inner = 1;                    // positions of one item after the class axis
  std::optional<int32_t> ignored = {};  // may be out of the range of classes
  // Source of the number of classes, for messages; empty means input 0.
  std::string_view classes_from = {};
  size_t input = 1;  // index of the layer's input with the labels
};

// Throws kDataLoss, naming the sample, if a label is neither a whole number 0..classes-1 nor the
// ignored label. Returns the number of labels that are not ignored. `labels` are f32 or f64.
int64_t CheckLabels(const Layer& layer, const ConstTensorView& labels, const LabelRule& rule);

// Throws kDataLoss, naming the sample, if a class target (input 1, with the batch on axis 0) is
// negative or not finite.
void CheckTargets(const Layer& layer, const ConstTensorView& targets);

// Throws kDataLoss, naming the sample, if a value of input `input` is not a whole number.
void CheckWholeNumbers(const Layer& layer, const ConstTensorView& values, size_t input);

// Returns the number of classes (axis `axis`) and of positions before and after it. Throws an error
// of `field` if the axis is out of range.
SoftmaxSize ClassSize(const Layer& layer, const Shape& scores, int64_t axis,
                      std::string_view field);
// Returns sizes with items on axis 0 and all values of an item as classes. Throws like FailInputs
// for a scalar.
SoftmaxSize RowSize(const Layer& layer, const Shape& scores);

// Throws like FailInputs unless there is one label for each position, in any shape. With
// `same_batch`, axis 0 of scores and labels must agree as well.
void CheckLabelShape(const Layer& layer, const Shape& scores, const SoftmaxSize& extent,
                     const Shape& labels, bool same_batch);

}  // namespace crema
