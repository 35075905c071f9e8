#include "layers/detection/region_pooling.h"

#include <cmath>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "layers/detection/box_inputs.h"

namespace crema {
namespace {

size_t RegionScratch(const InferContext& context) {
  return kScratchSlack + ScratchBytes<Region>(context.inputs[1].shape[0]);
}

}  // namespace

RegionPooling::RegionPooling(const LayerParameter& param, float scale, const char* field)
    : Layer(param), scale_(scale) {
  if (scale > 0 && std::isfinite(scale)) return;
  FailField(*this, field, StrCat("spatial_scale is ", scale, ", expected more than 0"));
}

size_t RegionPooling::ForwardScratch(const InferContext& context, const LayerInfo&, int) const {
  return RegionScratch(context);
}

size_t RegionPooling::BackwardScratch(const InferContext& context, const LayerInfo&, int) const {
  return RegionScratch(context);
}

void RegionPooling::CheckInputs(const InferContext& context) const {
  const Shape& map = context.inputs[0].shape;
  const Shape& regions = context.inputs[1].shape;
  if (map.axes() != 4) {
    FailInputs(*this,
               StrCat("the feature map has shape ", ToString(map), ", expected N x C x H x W"));
  }
  if (regions.axes() < 2 || regions.count(1) != 5) {
    FailInputs(*this, StrCat("the regions have shape ", ToString(regions),
                             ", expected R x 5: image, x1, y1, x2, y2"));
  }
}

LayerInfo RegionPooling::InfoOf(const InferContext& context, int64_t channels, int64_t rows,
                                int64_t columns) const {
  LayerInfo info;
  info.outputs = {
      {Shape({context.inputs[1].shape[0], channels, rows, columns}), context.inputs[0].dtype}};
  info.backward_reads_input = {false, true};
  info.gradient_forbidden = {false, true};
  return info;
}

void RegionPooling::Read(const ConstTensorView& blob, int64_t images, Region* regions) const {
  DispatchFloat(blob.dtype(), [&]<typename T>(T) {
    const T* row = blob.data<T>();
    for (int64_t r = 0; r < blob.shape()[0]; ++r, row += 5) {
      regions[r].image = WholeNumber(*this, row[0], images, r, "image");
      for (int k = 1; k < 5; ++k) {
        if (CornerFits(double{row[k]}, scale_)) continue;
        Fail(ErrorCode::kDataLoss,
             StrCat("region ", r, " has a corner at ", double{row[k]},
                    ", which is not a number, or far away from the feature map"),
             {.layer = param().name()});
      }
      regions[r].box = {double{row[1]}, double{row[2]}, double{row[3]}, double{row[4]}};
    }
  });
}

}  // namespace crema
