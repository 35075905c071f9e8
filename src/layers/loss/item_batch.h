// Batches whose items are on axis 0 and are compared elementwise.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "graph/layer.h"

namespace crema {

// Returns N, or 1 for an empty batch, whose loss is 0.
inline double BatchSize(const Shape& shape) {
  return static_cast<double>(std::max<int64_t>(1, shape[0]));
}

constexpr int64_t kItemGrain = 1 << 13;  // fewest values that are worth a thread

// Returns the least number of items of `values` values each that is worth a thread.
inline int64_t ItemGrain(int64_t values, int64_t grain = kItemGrain) {
  return std::max<int64_t>(1, grain / std::max<int64_t>(1, values));
}

// Throws like FailInputs unless all inputs have the same axis 0 and the same number of values per
// item.
void CheckEqualItems(const Layer& layer, std::span<const BlobSpec> inputs);

// Returns the facts of a loss whose Backward reads all inputs. Only the first `gradients` inputs
// may get a gradient.
LayerInfo LossInfo(const InferContext& context, size_t gradients);

// Base of rules (element_rules.h, feature_rules.h), with the defaults.
struct ItemRule {
  static constexpr size_t kGradients = 1;  // inputs that may get a gradient

  static void CheckShapes(const Layer& layer, std::span<const BlobSpec> inputs) {
    CheckEqualItems(layer, inputs);
  }
  // Throws if the inputs have invalid labels.
  static void CheckValues(const Layer&, std::span<const ConstTensorView>) {}
};

}  // namespace crema
