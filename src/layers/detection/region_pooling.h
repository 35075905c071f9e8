// Base of layers that pool over regions of images: ROIPooling, ROIAlign and PSROIPooling.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "core/parallel_for.h"
#include "graph/layer.h"
#include "graph/registry.h"
#include "layers/detection/region_bins.h"
#include "math/boxes.h"
#include "math/scratch.h"

namespace crema {

struct Region {
  int64_t image = 0;
  Box box;  // in pixels of the image
};

// Inputs are a feature map N x C x H x W and R x 5 regions (image, x1, y1, x2, y2; further axes of
// size 1 are allowed). Backward reads the regions, which get no gradient.
class RegionPooling : public Layer {
 public:
  size_t ForwardScratch(const InferContext& context, const LayerInfo& info,
                        int threads) const final;
  size_t BackwardScratch(const InferContext& context, const LayerInfo& info,
                         int threads) const final;

 protected:
  // Throws an error of `field`, the path of the scale, unless the scale is finite and positive.
  RegionPooling(const LayerParameter& param, float scale, const char* field);

  // Throws kInvalidArgument unless the inputs have the shapes above.
  void CheckInputs(const InferContext& context) const;
  // Returns info with one output, R x channels x rows x columns.
  LayerInfo InfoOf(const InferContext& context, int64_t channels, int64_t rows,
                   int64_t columns) const;

  // Calls body(channel, index of the region, region) for all channels and regions. Channels run in
  // parallel and share no data, so gradients of overlapping regions are added in the same order for
  // any number of threads. Throws kDataLoss, naming the region, for an image that is not a whole
  // number 0..N-1, for corners that are not finite, and for corners more than 10^6 positions from
  // the map.
  template <typename Args, typename Body>
  void ForEachRegion(const Args& args, int64_t channels, Body&& body) const {
    const ConstTensorView& blob = args.inputs[1];
    const int64_t count = blob.shape()[0];
    Region* const regions = ScratchCutter(args.scratch).template Take<Region>(count);
    Read(blob, args.inputs[0].shape()[0], regions);
    ParallelFor(args.context.threads(), channels, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t c = begin; c < end; ++c) {
        for (int64_t r = 0; r < count; ++r) body(c, r, regions[r]);
      }
    });
  }

  double scale() const { return scale_; }  // positions of the map per pixel

 private:
  void Read(const ConstTensorView& blob, int64_t images, Region* regions) const;

  const double scale_;
};

// Returns the shared part of the registration of a RegionPooling.
template <typename L>
LayerType RegionPoolingType(std::string name, std::string map_doc, std::string message) {
  LayerType type;
  type.name = std::move(name);
  type.category = "detection";
  type.input_docs = {std::move(map_doc),
                     "regions: R x 5, rows image (index in the batch), x1, y1, x2, y2 in pixels"};
  type.param_fields = {std::move(message)};
  type.inputs = {2, 2};
  type.make = [](const LayerParameter& p) { return std::make_unique<const L>(p); };
  return type;
}

}  // namespace crema
