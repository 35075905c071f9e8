// Unpooling by a mask: each value goes to the position in its plane that the mask of MAX pooling
// (its second output) gives.
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
constexpr int64_t kWrongPlace = -2;  // neither a position nor kNoPlace
// Returns the position in an output plane of `size` elements that a mask element names. T is float
// or double.
template <typename T>
CREMA_HOST_DEVICE int64_t MaskPlace(T mask, int64_t size) {
  const bool fits = mask >= -1 && mask < static_cast<T>(size) && std::floor(mask) == mask;
  return fits ? static_cast<int64_t>(mask) : kWrongPlace;
}

// y[mask[i]] = x[i], and 0 elsewhere. If several elements name one position, the last one wins. A
// mask of -1 (an empty window) drops the value. Throws if a mask element is no position of the
// output. Thread safety: any.
void ForwardMaskUnpool(const Layer& layer, const ForwardArgs& args);

// dx[i] = dy[mask[i]] if x[i] was written to the output, else 0. The gradient of the mask is 0.
// Reads input 1.
void BackwardMaskUnpool(const Layer& layer, const BackwardArgs& args);
size_t BackwardMaskUnpoolScratch(const Shape& output, int threads);

}  // namespace crema
