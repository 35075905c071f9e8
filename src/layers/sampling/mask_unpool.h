// Unpooling by a mask: each value goes to the place in the plane that the mask of MAX pooling (its
// second output) says.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/host_device.h"
#include "graph/layer.h"

namespace crema {

// Throws unless the mask has the shape of the input, with 4 axes.
void CheckMaskShape(const Layer& layer, const Shape& input, const Shape& mask);

constexpr int64_t kNoPlace = -1;
constexpr int64_t kWrongPlace = -2;  // neither a place nor kNoPlace
// The place in an output plane of `size` that a mask element names. T is float or double.
template <typename T>
CREMA_HOST_DEVICE int64_t MaskPlace(T mask, int64_t size) {
  const bool fits = mask >= -1 && mask < static_cast<T>(size) && std::floor(mask) == mask;
  return fits ? static_cast<int64_t>(mask) : kWrongPlace;
}

// y = 0 but for y[mask[i]] = x[i]; of several for one place the last counts. A mask of -1 (an empty
// window) drops the value. Throws where the mask is no place of the output. Thread safety: any.
void ForwardMaskUnpool(const Layer& layer, const ForwardArgs& args);

// dx[i] = dy[mask[i]] where x[i] was the one that counted, else 0; that of the mask is 0. Reads
// input 1.
void BackwardMaskUnpool(const Layer& layer, const BackwardArgs& args);
size_t BackwardMaskUnpoolScratch(const Shape& output, int threads);

}  // namespace crema
