// Parts of a blob along an axis, which Concat puts together and Slice takes apart.
#pragma once

#include "layers/layer_axis.h"
#include "layers/shape/strided_block.h"

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

// The extents in memory of a blob in channels last: all that is in front of the channels, channels.
inline Shape RowsOfChannels(const Shape& shape) { return {shape.With(1, 1).count(), shape[1]}; }

// From a part into its place in the whole.
inline StridedBlock AxisPart(const Shape& part, const Shape& whole, int axis) {
  StridedBlock block;
  block.Add(part.count(0, axis), part.count(axis), whole.count(axis));
  block.Add(part.count(axis), 1, 1);
  return block;
}

}  // namespace crema
