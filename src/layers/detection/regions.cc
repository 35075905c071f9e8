#include "layers/detection/regions.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/strings.h"
#include "layers/detection/box_inputs.h"

namespace crema {
namespace {

constexpr double kFarAway = 1e6;  // places

}  // namespace

void CheckRegionInputs(const Layer& layer, std::span<const BlobSpec> inputs) {
  const Shape& map = inputs[0].shape;
  const Shape& regions = inputs[1].shape;
  if (map.axes() != 4) {
    FailInputs(layer,
               StrCat("the feature map has shape ", ToString(map), ", expected N x C x H x W"));
  }
  if (regions.axes() < 2 || regions.count(1) != 5) {
    FailInputs(layer, StrCat("the regions have shape ", ToString(regions),
                             ", expected R x 5: image, x1, y1, x2, y2"));
  }
}

void ReadRegions(const Layer& layer, const ConstTensorView& blob, int64_t images, double scale,
                 Region* regions) {
  DispatchFloat(blob.dtype(), [&]<typename T>(T) {
    const T* row = blob.data<T>();
    for (int64_t r = 0; r < CountRegions(blob.shape()); ++r, row += 5) {
      regions[r].image = WholeNumber(layer, row[0], images, r, "image");
      for (int k = 1; k < 5; ++k) {
        // Not the other way round: NaN must fail.
        if (std::abs(double{row[k]} * scale) <= kFarAway) continue;
        Fail(ErrorCode::kDataLoss,
             StrCat("region ", r, " has a corner at ", double{row[k]},
                    ", which is no number, or far away from the feature map"),
             {.layer = layer.param().name()});
      }
      regions[r].box = {double{row[1]}, double{row[2]}, double{row[3]}, double{row[4]}};
    }
  });
}

void CheckSpatialScale(const Layer& layer, float scale, const char* field) {
  if (scale > 0 && std::isfinite(scale)) return;
  FailField(layer, field, StrCat("spatial_scale is ", scale, ", expected more than 0"));
}

BinRange BinOf(double start, double size, int64_t bin, int64_t extent) {
  const double low = std::floor(static_cast<double>(bin) * size + start);
  const double high = std::ceil(static_cast<double>(bin + 1) * size + start);
  const auto last = static_cast<double>(extent);
  return {static_cast<int64_t>(std::clamp(low, 0.0, last)),
          static_cast<int64_t>(std::clamp(high, 0.0, last))};
}

}  // namespace crema
