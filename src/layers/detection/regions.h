// Regions of images (rois), as the pooling layers of region detectors read them.
#pragma once

#include <cstdint>
#include <span>

#include "core/parallel_for.h"
#include "core/tensor.h"
#include "graph/layer.h"
#include "math/boxes.h"

namespace crema {

struct Region {
  int64_t image = 0;
  Box box;  // in pixels of the image
};

// Throws kInvalidArgument unless inputs are a feature map N x C x H x W and rows of five values
// (R x 5, axes of 1 behind that are fine).
void CheckRegionInputs(const Layer& layer, std::span<const BlobSpec> inputs);

inline int64_t CountRegions(const Shape& regions) { return regions[0]; }

// Throws kDataLoss, naming the region, for an image that is not a whole number 0..images-1, for
// corners that are not finite, and for corners further than 10^6 places from the map.
void ReadRegions(const Layer& layer, const ConstTensorView& blob, int64_t images, double scale,
                 Region* regions);

// Throws kInvalidArgument unless `scale` is finite and above 0; `field` is its path.
void CheckSpatialScale(const Layer& layer, float scale, const char* field);

// Calls body(channel) for all channels on several threads: channels share nothing, so gradients of
// regions that overlap are added in the same order on any number of threads.
template <typename Body>
void ForEachChannel(int threads, int64_t channels, Body&& body) {
  ParallelFor(threads, channels, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t c = begin; c < end; ++c) body(c);
  });
}

// Places [begin, end) of one axis.
struct BinRange {
  int64_t begin;
  int64_t end;
  int64_t size() const { return end > begin ? end - begin : 0; }
};

// The places that bin `bin` covers: bins of `size` from `start`, cut to whole places outwards and
// to 0..extent.
BinRange BinOf(double start, double size, int64_t bin, int64_t extent);

}  // namespace crema
