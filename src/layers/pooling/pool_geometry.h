// Sizes of one pooling layer, from its parameters and the shape of its input.
#pragma once

#include <string>
#include <vector>

#include "graph/layer.h"
#include "math/pool_nd.h"

namespace crema {

// What the text says, for any number of spatial axes: one entry serves all of them.
struct PoolSettings {
  std::vector<int64_t> kernel;  // empty: the whole extents
  std::vector<int64_t> stride = {1};
  std::vector<int64_t> pad = {0};
  bool rounds_down = false;
  int64_t axis = 1;  // of channels; the axes behind it are spatial
};

// Reads and checks what needs no input; throws as the constructor of a layer does.
PoolSettings ReadPoolSettings(const Layer& layer);
// The same under the names of C3D: kernel_depth, temporal_stride and temporal_pad are the first of
// three spatial axes.
PoolSettings ReadPool3DSettings(const Layer& layer);

// Throws kInvalidArgument where the input does not fit the settings.
PoolWindowNd MakePoolWindow(const Layer& layer, const PoolSettings& settings, const Shape& input);

// The second half of it: works out the numbers of windows of axes whose other members are set.
void FitWindow(const Layer& layer, const Shape& input, bool rounds_down, PoolWindowNd* window);

// A mean of no cells at all has no value: throws where AVE would have such windows.
void CheckAverageWindows(const Layer& layer, const PoolWindowNd& window, const Shape& input);

// Of "stem" and the pair "stem_h", "stem_w" (fields of `message`), the whole excludes the pair, and
// of the pair both must be given.
void CheckPairForm(const Layer& layer, const std::string& message, const std::string& stem,
                   bool whole, bool h, bool w);

}  // namespace crema
