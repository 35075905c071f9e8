// Random rectangles for resized_crop and erase.
#pragma once

#include <optional>

#include "crema.pb.h"
#include "data/augment/canvas.h"
#include "data/augment/draws.h"

namespace crema {

// Follows torchvision's RandomResizedCrop.get_params: draws area (uniform), aspect ratio
// (log-uniform) and position. After ten failed tries, returns the largest centred part with an
// allowed aspect ratio.
PixelRect DrawResizedCrop(const AugmentParameter::ResizedCrop& param, int height, int width,
                          Draws& draws);

// Follows torchvision's RandomErasing.get_params: up to ten tries for a rectangle smaller than the
// image in both directions, then nothing. Ignores `probability`.
std::optional<PixelRect> DrawErased(const AugmentParameter::Erase& param, int height, int width,
                                    Draws& draws);

}  // namespace crema
