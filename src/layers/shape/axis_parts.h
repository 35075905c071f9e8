// Parts of a blob along an axis: Concat joins them, Slice cuts them.
#pragma once

#include <span>

#include "crema.pb.h"
#include "layers/layer_axis.h"
#include "layers/shape/mover.h"

namespace crema {

inline int ConcatAxis(const Layer& layer, const Shape& shape) {
  const ConcatParameter& concat = layer.param().concat_param();
  return concat.has_concat_dim()
             ? LayerAxis(layer, shape, concat.concat_dim(), "concat_param.concat_dim")
             : LayerAxis(layer, shape, concat.axis(), "concat_param.axis");
}

inline int SliceAxis(const Layer& layer, const Shape& shape) {
  const SliceParameter& slice = layer.param().slice_param();
  return slice.has_slice_dim() ? LayerAxis(layer, shape, slice.slice_dim(), "slice_param.slice_dim")
                               : LayerAxis(layer, shape, slice.axis(), "slice_param.axis");
}

// Returns the block that copies a part into the whole, from index `first` of the axis on.
inline StridedBlock AxisPart(const Shape& part, const Shape& whole, int axis, int64_t first) {
  StridedBlock block;
  block.Add(part.count(0, axis), part.count(axis), whole.count(axis));
  block.Add(part.count(axis), 1, 1);
  block.to = first * whole.count(axis + 1);
  return block;
}

// Copies consecutive `parts` into `whole`.
inline void JoinParts(const Mover& mover, int axis, std::span<const ConstTensorView> parts,
                      const TensorView& whole) {
  const Shape shape = mover.Stored(whole.shape());
  int64_t first = 0;
  for (const ConstTensorView& part : parts) {
    mover.Copy(AxisPart(mover.Stored(part.shape()), shape, axis, first), part, whole);
    first += part.shape()[axis];
  }
}

// Reverse of JoinParts. Skips parts that are empty; part i has the shape of `shapes[i]`.
template <typename View>
void CutParts(const Mover& mover, int axis, const ConstTensorView& whole,
              std::span<const View> shapes, std::span<const TensorView> parts) {
  const Shape shape = mover.Stored(whole.shape());
  int64_t first = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Shape& part = shapes[i].shape();
    if (!parts[i].empty()) {
      mover.Copy(AxisPart(mover.Stored(part), shape, axis, first).Reversed(), whole, parts[i]);
    }
    first += part[axis];
  }
}

}  // namespace crema
