// Sizes of one pooling layer, from its parameters and the shape of its input.
#pragma once

#include <string>
#include <vector>

#include "graph/layer.h"
#include "math/pool_nd.h"

namespace crema {

// Parameters for any number of spatial axes. A single entry serves all axes.
struct PoolSettings {
  std::vector<int64_t> kernel;  // empty means the whole input
  std::vector<int64_t> stride = {1};
  std::vector<int64_t> pad = {0};
  bool rounds_down = false;
  int64_t axis = 1;  // of channels; the axes after it are spatial
};

// Reads and checks the parameters that need no input. Throws as the constructor of a layer does.
PoolSettings ReadPoolSettings(const Layer& layer);
// The same with the fields of C3D: kernel_depth, temporal_stride and temporal_pad are for the first
// of three spatial axes.
PoolSettings ReadPool3DSettings(const Layer& layer);

// Throws kInvalidArgument if the input does not fit the settings.
PoolWindowNd MakePoolWindow(const Layer& layer, const PoolSettings& settings, const Shape& input);

// Second part of MakePoolWindow: computes the number of windows along axes whose other members are
// set, and limits their kernels to the padded input.
void FitWindow(const Layer& layer, const Shape& input, bool rounds_down, PoolWindowNd* window);

// Throws if AVE would have windows without cells, whose mean is undefined.
void CheckAverageWindows(const Layer& layer, const PoolWindowNd& window, const Shape& input);

// Checks the field "stem" and the pair "stem_h", "stem_w" of `message`. Throws if both forms are
// given, or only one field of the pair.
void CheckPairForm(const Layer& layer, const std::string& message, const std::string& stem,
                   bool whole, bool h, bool w);

}  // namespace crema
