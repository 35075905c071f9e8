#include "layers/arithmetic/broadcast_axes.h"

#include <algorithm>

#include "core/strings.h"
#include "layers/layer_axis.h"

namespace crema {

Shape CoveredShape(const Layer& layer, const Shape& x, const CoveredAxes& covered) {
  const std::string field(covered.num_axes_field);
  if (covered.num_axes < -1) {
    FailField(layer, field,
              StrCat("num_axes is ", covered.num_axes,
                     ", expected 0 or more, or -1 for all axes from axis on"));
  }
  if (covered.num_axes == 0) return {};
  const int axis = LayerAxis(layer, x, covered.axis, covered.axis_field);
  const int64_t left = x.axes() - axis;
  const int64_t count = covered.num_axes == -1 ? left : covered.num_axes;
  if (count > left) {
    FailField(layer, field,
              StrCat("num_axes is ", count, ", but the input ", ToString(x), " has ", left,
                     " axes from axis ", axis, " on"));
  }
  return Shape(x.dims().subspan(static_cast<size_t>(axis), static_cast<size_t>(count)));
}

BroadcastShape CoveredSize(const Layer& layer, const Shape& x, const Shape& small,
                           const CoveredAxes& covered) {
  if (small.axes() == 0) return {1, 1, x.count()};
  const int axis = LayerAxis(layer, x, covered.axis, covered.axis_field);
  const int end = axis + small.axes();
  const auto over = x.dims().subspan(static_cast<size_t>(axis));
  if (end > x.axes() || !std::ranges::equal(small.dims(), over.first(small.dims().size()))) {
    FailInputs(layer, StrCat("a blob of ", ToString(small), " cannot be laid over ", ToString(x),
                             " from axis ", axis, " on; the shapes must be equal"));
  }
  return {x.count(0, axis), small.count(), x.count(end)};
}

std::vector<BadSample> BadCoveredAxes(const std::string& message) {
  return {
      {message + " { axis: 2 }", {{2, 3}}, "axis 2 is outside"},
      {message + " { num_axes: 2 }", {{2, 3}}, "has 1 axes from axis 1 on"},
      {message + " { num_axes: -2 }", {{2, 3}}, "num_axes is -2"},
      {"", {{2, 3}, {2}}, "a blob of 2 cannot be laid over 2x3 from axis 1 on"},
      {"", {{2, 3}, {3, 1}}, "a blob of 3x1"},
  };
}

void SetReach(const Shape& x, const CoveredAxes& covered, const Shape* given, LayerInfo* info) {
  const bool learns = !info->parameters.empty();
  const Shape& small = given != nullptr ? *given : info->parameters[0].shape;
  const int axis = small.axes() == 0 ? 0 : x.CanonicalAxis(covered.axis);
  if (small.axes() > 0 && axis == 0 && !learns) {
    // The second bottom has an entry for each sample.
    info->reach = small == x ? Reach::kElement : Reach::kSample;
    return;
  }
  const bool by_channel = axis == 1 && small.axes() == 1;
  info->reach = small.axes() == 0 ? Reach::kElement
                : by_channel      ? Reach::kPlace
                                  : ReachFromAxis(axis);
  if (given != nullptr) info->shared_inputs = {false, true};
}

}  // namespace crema
