// Class labels as losses and metrics read them: integers stored as floating point.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "core/host_device.h"
#include "core/tensor.h"
#include "graph/layer.h"
#include "math/softmax.h"

namespace crema {

// Returns the name of a bottom, for messages.
std::string BottomName(const Layer& layer, size_t index);
// Throws kDataLoss about an item of input `input`.
[[noreturn]] void FailItem(const Layer& layer, size_t input, int64_t item, std::string message);

// A kernel cannot throw as CheckLabels does. A label out of range gets no gradient, like an ignored
// label, and makes the loss NaN, which the divergence check detects. The CPU then repeats the step
// and reports the label.
constexpr int64_t kIgnoredLabel = -1;
constexpr int64_t kWrongLabel = -2;

CREMA_HOST_DEVICE inline float NotANumber() { return std::numeric_limits<float>::quiet_NaN(); }

// Labels of T, compared as R (float or double).
template <typename T, typename R>
struct ClassLabels {
  ClassLabels() = default;
  ClassLabels(const T* labels, int64_t number, const std::optional<int32_t>& ignore = {})
      : data(labels), classes(number), ignores(ignore.has_value()), ignored(ignore.value_or(0)) {}

  // Returns the class, or one of the constants above.
  CREMA_HOST_DEVICE int64_t operator()(int64_t position) const {
    const R label = static_cast<R>(data[position]);
    if (ignores && static_cast<double>(label) == ignored) return kIgnoredLabel;
    // Written so that NaN counts as wrong.
    if (!(label >= 0 && label < static_cast<R>(classes)) || label != std::trunc(label)) {
      return kWrongLabel;
    }
    return static_cast<int64_t>(label);
  }

  const T* data = nullptr;
  int64_t classes = 0;
  bool ignores = false;
  double ignored = 0;
};

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
void CheckLabelShape(const Layer& layer, const Shape& scores, const SoftmaxSize& sizes,
                     const Shape& labels, bool same_batch);

}  // namespace crema
