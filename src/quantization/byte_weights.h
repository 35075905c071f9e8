// Weights as signed bytes with a step for each output.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor.h"
#include "plan/plan.h"

namespace crema {

// weight = byte * step, with a step for each index of `axis`, the outputs.
struct ByteWeights {
  std::vector<int8_t> bytes;  // in the order of the weights
  std::vector<float> steps;
  int axis = 0;
};

// Rounds the weights of a layer with products. The largest magnitude of each output becomes
// `largest`; outputs of zeros, and those that are not finite, become 0.
ByteWeights RoundWeights(const PlannedLayer& layer, const ConstTensorView& weight, int largest);

// Writes byte * step for each byte of a tensor of this shape. Requires: as many bytes and floats as
// the shape has elements, and as many steps as its axis `axis` is long.
void WeightsFromBytes(const Shape& shape, int axis, const int8_t* bytes,
                      std::span<const float> steps, float* floats);

}  // namespace crema
