// Broadcasting of a small blob over axes of a large one, for Scale and Bias.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "crema.pb.h"
#include "graph/layer.h"
#include "graph/registry.h"
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

// Returns the shape of the parameter over `x`, for one bottom: axes [axis, axis + num_axes), to
// the end for -1, a scalar for 0. Throws, naming the field that does not fit.
Shape CoveredShape(const Layer& layer, const Shape& x, const CoveredAxes& covered);

// Returns the sizes of `x` for a blob of shape `small` that covers the axes from `axis` on; a
// scalar covers everything. Throws if `small` differs from the axes that it covers.
BroadcastShape CoveredSize(const Layer& layer, const Shape& x, const Shape& small,
                           const CoveredAxes& covered);

// Returns what both layers refuse; `message` is "scale_param" or "bias_param".
std::vector<BadSample> BadCoveredAxes(const std::string& message);

// Sets LayerInfo::reach and shared_inputs. `given` is the shape of the second bottom; null means
// that the small blob is learned. Requires that CoveredSize accepts the shapes.
void SetReach(const Shape& x, const CoveredAxes& covered, const Shape* given, LayerInfo* info);

}  // namespace crema
