// Internal to Winograd convolution in channel blocks: transformations of adjacent tiles. In
// `points`, the vector of point p and tile t is at points[p * point + t * kLanes].
#pragma once

#include <cstdint>

#include "math/cpu/blocked_winograd_pass.h"

namespace crema::blocked_winograd {

// One channel block of one image.
struct InputPlane {
  const float* data;
  int64_t height, width, pad_h, pad_w;
};

// points = B^T d B for the 6 x 6 inputs d of each tile; outside the plane they are 0.
void TransformInputs(const InputPlane& plane, const TileRun& run, float* points, int64_t point);

struct OutputPlane {
  float* data;
  const float* residual;  // may be null
  int64_t height, width;
  const float* bias;  // kLanes of them
  bool relu;
  float slope;
};

// The plane's pixels = relu(A^T points A + bias + residual), for those of the tiles' 4 x 4 pixels
// that lie in the plane.
void TransformOutputs(const float* points, int64_t point, const TileRun& run,
                      const OutputPlane& plane);

// points = A d A^T for the 4 x 4 gradients d of each tile; outside the plane they are 0. The
// plane's padding does not count.
void TransformOutputGradients(const InputPlane& plane, const TileRun& run, float* points,
                              int64_t point);

// Filters of one block of output channels and one input channel: element i of output l is data[l *
// stride + i], in reverse order if flipped; outputs from `count` on are 0. They are multiplied by
// `factors`, kLanes of them.
struct FilterBlock {
  const float* data;
  int64_t stride;
  int64_t count;
  bool flipped;
  const float* factors;
};

// points[p * point] = G g G^T.
void TransformFilters(const FilterBlock& filters, float* points, int64_t point);

// data[l * stride + i] += G^T points G, for outputs l < count.
struct FilterGradientBlock {
  float* data;
  int64_t stride;
  int64_t count;
};
void AddFilterGradients(const float* points, int64_t point, const FilterGradientBlock& filters);

}  // namespace crema::blocked_winograd
