// How Scale and Bias lay a small blob over axes of a large one.
#pragma once

#include <string_view>

#include "crema.pb.h"
#include "graph/layer.h"
#include "math/broadcast_shape.h"

namespace crema {

// The fields `axis` and `num_axes` of a layer, and their paths ("scale_param.axis").
struct CoveredAxes {
  int64_t axis = 1;
  int64_t num_axes = 1;
  std::string_view axis_field;
  std::string_view num_axes_field;
};

inline CoveredAxes AxesOfScale(const Layer& layer) {
  const ScaleParameter& scale = layer.param().scale_param();
  return {scale.axis(), scale.num_axes(), "scale_param.axis", "scale_param.num_axes"};
}
inline CoveredAxes AxesOfBias(const Layer& layer) {
  const BiasParameter& bias = layer.param().bias_param();
  return {bias.axis(), bias.num_axes(), "bias_param.axis", "bias_param.num_axes"};
}

// One bottom: the shape of the learned blob over `x`: axes [axis, axis + num_axes), to the end for
// -1, a scalar for 0. Throws about the field that does not fit.
Shape CoveredShape(const Layer& layer, const Shape& x, const CoveredAxes& covered);

// The extents of `x` for a blob of shape `small`, laid from `axis` on; a scalar covers everything.
// Throws when `small` does not equal the axes that it is laid over.
BroadcastShape CoveredSize(const Layer& layer, const Shape& x, const Shape& small,
                           const CoveredAxes& covered);

// Sets LayerInfo::reach and shared_inputs. `given` is the shape of the second bottom; null: the
// small blob is learned. Requires that CoveredSize takes it.
void SetReach(const Shape& x, const CoveredAxes& covered, const Shape* given, LayerInfo* info);

}  // namespace crema
