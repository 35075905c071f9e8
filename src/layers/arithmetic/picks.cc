#include "layers/arithmetic/picks.h"

#include <span>
#include <vector>

#include "core/strings.h"

namespace crema {

Picks ElementPicks(const Layer& layer, const Shape& x, const Shape& index, int axis) {
  if (index.axes() != x.axes()) {
    FailInputs(layer, StrCat("x and the index need the same number of axes, but their shapes are ",
                             ToString(x), " and ", ToString(index)));
  }
  Picks picks;
  picks.elements = true;
  picks.axis = axis;
  picks.axes = x.axes();
  picks.size = x[axis];
  picks.count = index.count();
  picks.groups = index.count() == 0 ? 1 : index.count(0, axis);
  for (int a = 0; a < x.axes(); ++a) {
    if (a != axis && index[a] > x[a]) {
      FailInputs(layer, StrCat("axis ", a, " of the index of shape ", ToString(index),
                               " is longer than that of x of shape ", ToString(x)));
    }
    picks.sizes[a] = index[a];
    picks.strides[a] = x.count(a + 1);
  }
  return picks;
}

Picks SlicePicks(const Layer& layer, const Shape& x, const Shape& index, int batch_dims) {
  const int last = index.axes() - 1;
  if (last < batch_dims) {
    FailInputs(layer, StrCat("an index of shape ", ToString(index), " has no axis of coordinates"));
  }
  for (int a = 0; a < batch_dims; ++a) {
    if (a < x.axes() && x[a] == index[a]) continue;
    FailInputs(layer, StrCat("x of shape ", ToString(x), " and the index of shape ",
                             ToString(index), " need the same first ", batch_dims, " axes"));
  }
  if (index[last] < 1 || index[last] > x.axes() - batch_dims) {
    FailInputs(layer,
               StrCat("the last axis of the index of shape ", ToString(index), " must have 1 to ",
                      x.axes() - batch_dims, " coordinates for x of shape ", ToString(x)));
  }
  Picks picks;
  picks.axes = static_cast<int>(index[last]);
  picks.count = index.count(0, last);
  picks.groups = picks.count == 0 ? 1 : index.count(0, batch_dims);
  picks.group_stride = x.count(batch_dims);
  picks.inner = x.count(batch_dims + picks.axes);
  for (int a = 0; a < picks.axes; ++a) {
    picks.sizes[a] = x[batch_dims + a];
    picks.strides[a] = x.count(batch_dims + a + 1);
  }
  return picks;
}

Shape SlicesShape(const Layer& layer, const Shape& x, const Shape& index, int batch_dims) {
  const std::span<const int64_t> from = index.dims(), rest = x.dims();
  std::vector<int64_t> dims(from.begin(), from.end() - 1);
  dims.insert(dims.end(), rest.begin() + batch_dims + from.back(), rest.end());
  if (dims.size() <= size_t{Shape::kMaxAxes}) return Shape(std::span<const int64_t>(dims));
  FailInputs(layer, StrCat("bottoms of ", x.axes(), " and ", index.axes(),
                           " axes give a blob of more than ", Shape::kMaxAxes));
}

void CheckPicks(const Layer& layer, const Picks& picks, const ConstTensorView& index) {
  std::vector<IndexRange> ranges;
  if (picks.elements) ranges.push_back({.limit = picks.size, .from_end = true});
  for (int a = 0; a < picks.axes && !picks.elements; ++a) {
    ranges.push_back({.limit = picks.sizes[a], .from_end = true});
  }
  CheckIndices(layer, index, 1, ranges, "entries on the axis");
}

}  // namespace crema
