// Random changes of colour (distort_param) and of pixels (noise_param). Requires a build with
// OpenCV.
#pragma once

#include "crema.pb.h"
#include "data/augment/draws.h"
#include "data/image/image.h"

namespace crema {

// Changes brightness, contrast, saturation, hue and channel order, each with its probability.
// Contrast is changed either second or after the hue. Images without three channels change in
// brightness and contrast only.
void Distort(const DistortionParameter& param, Draws& draws, Image* image);

// Applies all enabled steps in this order: grey, blur, histogram equalization (whole, local), JPEG,
// erosion, posterizing, inversion, salt and pepper, HSV, Lab.
void AddNoise(const NoiseParameter& param, Draws& draws, Image* image);

}  // namespace crema
