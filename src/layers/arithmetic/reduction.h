// Sizes of Reduction; see reduction.cc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/layer.h"
#include "layers/layer_axis.h"
#include "math/broadcast_map.h"

namespace crema {

// Axes of an input that are folded.
using FoldedAxes = std::array<bool, Shape::kMaxAxes>;

inline FoldedAxes FoldedAxesOf(const Layer& layer, const Shape& x) {
  const ReductionParameter& param = layer.param().reduction_param();
  FoldedAxes folded{};
  if (param.axes().empty()) {
    const int first = LayerAxis(layer, x, param.axis(), "reduction_param.axis");
    for (int a = first; a < x.axes(); ++a) folded[static_cast<size_t>(a)] = true;
    return folded;
  }
  for (const int32_t given : param.axes()) {
    const int axis = LayerAxis(layer, x, given, "reduction_param.axes");
    if (folded[static_cast<size_t>(axis)]) {
      FailField(layer, "reduction_param.axes",
                StrCat("axes has axis ", axis, " of ", ToString(x), " twice"));
    }
    folded[static_cast<size_t>(axis)] = true;
  }
  return folded;
}

inline Shape FoldedShape(const Shape& x, const FoldedAxes& folded, bool keep_dims) {
  std::array<int64_t, Shape::kMaxAxes> sizes{};
  size_t count = 0;
  for (int a = 0; a < x.axes(); ++a) {
    const bool kept = !folded[static_cast<size_t>(a)];
    if (kept || keep_dims) sizes[count++] = kept ? x[a] : 1;
  }
  return Shape(std::span<const int64_t>(sizes.data(), count));
}

// Returns the map of the output (operand 0), repeated along the folded axes, to the input.
inline BroadcastMap FoldMap(const Layer& layer, const Shape& x) {
  const Shape y = FoldedShape(x, FoldedAxesOf(layer, x), true);
  const Shape* operand = &y;
  return MapOf(x, {&operand, 1});
}

// Returns the factor of the result: the coefficient, divided by the number of folded elements for
// MEAN. The mean of no elements is 0.
inline double FoldFactor(const Layer& layer, const BroadcastMap& map, int64_t outputs) {
  const ReductionParameter& param = layer.param().reduction_param();
  const double coeff = param.coeff();
  if (param.operation() != ReductionParameter::MEAN || map.count == 0) return coeff;
  return coeff * static_cast<double>(outputs) / static_cast<double>(map.count);
}

}  // namespace crema
