// Random rectangles of an image: what resized_crop keeps, what erase fills.
#pragma once

#include <optional>

#include "crema.pb.h"
#include "data/augment/canvas.h"
#include "data/augment/draws.h"

namespace crema {

// As torchvision's RandomResizedCrop.get_params: an area drawn uniformly, an aspect ratio whose
// logarithm is drawn uniformly, a place; ten tries, then the largest part in the middle whose
// aspect ratio is allowed.
PixelRect DrawResizedCrop(const AugmentParameter::ResizedCrop& param, int height, int width,
                          Draws& draws);

// As torchvision's RandomErasing.get_params: ten tries as above for a rectangle that is smaller
// than the image both ways; then nothing. `probability` is not looked at.
std::optional<PixelRect> DrawErased(const AugmentParameter::Erase& param, int height, int width,
                                    Draws& draws);

}  // namespace crema
