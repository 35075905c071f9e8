// EXIF orientation: how to rotate the stored image so that it is upright.
#pragma once

#include <cstdint>
#include <span>

#include "data/image/image.h"

namespace crema {

// Returns the orientation from a TIFF structure (the body of EXIF): 1 (upright) to 8. Returns 1 if
// it is missing or invalid.
int FindOrientation(std::span<const uint8_t> tiff);

// Returns true if height and width of the stored and the upright image are exchanged.
inline bool SwapsSides(int orientation) { return orientation >= 5; }

// Extracts `part` of the upright image. Requires: it is inside; orientation 1 to 8.
void RotateUpright(const PackedImage& stored, int orientation, const ImagePart& part,
                   PackedImage* upright);

}  // namespace crema
