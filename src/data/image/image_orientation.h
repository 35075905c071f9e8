// Cameras store what their sensor saw, and say in EXIF how to hold it.
#pragma once

#include <cstdint>
#include <span>

#include "data/image/image.h"

namespace crema {

// The orientation in a TIFF structure, which is what EXIF consists of: 1 (upright) to 8, as EXIF
// numbers them; 1 where there is none, or it makes no sense.
int FindOrientation(std::span<const uint8_t> tiff);

// Whether the sides of the stored image are those of the upright one the other way round.
inline bool SwapsSides(int orientation) { return orientation >= 5; }

// The part of the upright image that `part` is. Requires: it is inside; orientation 1 to 8.
void RotateUpright(const PackedImage& stored, int orientation, const ImagePart& part,
                   PackedImage* upright);

}  // namespace crema
