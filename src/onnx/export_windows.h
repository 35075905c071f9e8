// Pooling and interpolation that several layers write.
#pragma once

#include <string>

#include "layers/pooling/pool_planes.h"
#include "onnx/export_layer.h"

namespace crema {

// Pools `x`, which has two axes before those of the window, and returns the result. `positions`,
// unless it is null, is set to the positions of the maxima, as Pooling counts them.
std::string ExportPool(LayerExport* e, const std::string& x, const PoolWindowNd& window,
                       PoolPlanes::Method method, bool exclude_pad, std::string* positions);

// Pads `x` along axes from `first` on by these numbers of elements; negative ones cut off.
std::string ExportPad(LayerExport* e, const std::string& x, int axes, int first,
                      const std::vector<int64_t>& before, const std::vector<int64_t>& after,
                      float value);

}  // namespace crema
