// Access to predicted boxes and objects in blobs, for detection layers on GPUs.
#pragma once

#include <array>

#include "layers/detection/box_inputs.h"
#include "layers/gpu_implementation.h"

namespace crema {

template <typename T>
CREMA_HOST_DEVICE inline BoxOffsets FourAt(const T* values) {
  return {static_cast<double>(ToFloat(values[0])), static_cast<double>(ToFloat(values[1])),
          static_cast<double>(ToFloat(values[2])), static_cast<double>(ToFloat(values[3]))};
}

template <typename T>
CREMA_HOST_DEVICE inline Box CornersAt(const T* values) {
  const BoxOffsets corners = FourAt(values);
  return {corners[0], corners[1], corners[2], corners[3]};
}

// Inputs 0..2: loc N x 4 P L, conf N x P K, priors 1 x 2 x 4P.
template <typename T>
struct DevicePredictions {
  BoxSizes sizes;
  BoxCode code = BoxCode::kCorner;
  bool with_variance = true;  // if false, variances are 1
  bool clip = false;          // to the image
  const T* loc = nullptr;
  const T* conf = nullptr;
  const T* priors = nullptr;

  CREMA_HOST_DEVICE Box Prior(int64_t p) const { return CornersAt(priors + 4 * p); }
  CREMA_HOST_DEVICE BoxOffsets Variance(int64_t p) const {
    if (!with_variance) return {1, 1, 1, 1};
    return FourAt(priors + 4 * (sizes.priors + p));
  }
  // Returns the index in loc of the four offsets of prior p of an image, for a class of boxes.
  CREMA_HOST_DEVICE int64_t LocAt(int64_t image, int64_t p, int64_t box_class) const {
    return ((image * sizes.priors + p) * sizes.box_classes + box_class) * 4;
  }
  CREMA_HOST_DEVICE Box Predicted(int64_t image, int64_t p, int64_t box_class) const {
    const Box box = Decode(code, FourAt(loc + LocAt(image, p, box_class)), Prior(p), Variance(p));
    return clip ? Clip(box, 1, 1) : box;
  }
  // Returns the scores of prior p of an image.
  CREMA_HOST_DEVICE const T* Scores(int64_t image, int64_t p) const {
    return conf + (image * sizes.priors + p) * sizes.classes;
  }
};

inline BoxSizes SizesOf(const Layer& layer, std::span<const ConstTensorView> inputs,
                        int64_t classes, bool share_location) {
  const std::array<BlobSpec, 3> specs{BlobSpec{inputs[0].shape()}, BlobSpec{inputs[1].shape()},
                                      BlobSpec{inputs[2].shape()}};
  return CheckPredictions(layer, specs, classes, share_location);
}

template <typename T>
DevicePredictions<T> PredictionsOf(const BoxSizes& sizes, BoxCode code, bool with_variance,
                                   std::span<const ConstTensorView> inputs) {
  return {.sizes = sizes,
          .code = code,
          .with_variance = with_variance,
          .loc = Elements<T>(inputs[0]),
          .conf = Elements<T>(inputs[1]),
          .priors = Elements<T>(inputs[2])};
}

}  // namespace crema
