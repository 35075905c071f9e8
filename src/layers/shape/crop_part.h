// Which part of a blob Crop takes.
#pragma once

#include "layers/layer_axis.h"
#include "layers/shape/strided_block.h"

namespace crema {

// The part, and the place of its first element in the whole.
struct CropPart {
  StridedBlock block;
  int64_t first = 0;
};

inline int CropAxis(const Layer& layer, const Shape& shape) {
  return LayerAxis(layer, shape, layer.param().crop_param().axis(), "crop_param.axis");
}

inline int64_t CropOffset(const Layer& layer, int axis, int first_axis) {
  const CropParameter& crop = layer.param().crop_param();
  if (crop.offset_size() == 0) return 0;
  return crop.offset(crop.offset_size() == 1 ? 0 : axis - first_axis);
}

// From the whole into the part.
inline CropPart MakeCropPart(const Layer& layer, const Shape& whole, const Shape& part) {
  CropPart made;
  const int axis = CropAxis(layer, whole);
  for (int a = 0; a < whole.axes(); ++a) {
    made.block.Add(part[a], whole.count(a + 1), part.count(a + 1));
    if (a >= axis) made.first += CropOffset(layer, a, axis) * whole.count(a + 1);
  }
  return made;
}

}  // namespace crema
