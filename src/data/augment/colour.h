// Random changes of colour (distort_param) and of pixels (noise_param). Both need OpenCV: they are
// left out of a build without it.
#pragma once

#include "crema.pb.h"
#include "data/augment/draws.h"
#include "data/image/image.h"

namespace crema {

// Brightness, contrast, saturation, hue and order of the channels, each with its probability; the
// contrast comes second or after the hue. Images that do not have three channels change in
// brightness and contrast only.
void Distort(const DistortionParameter& param, Draws& draws, Image* image);

// All steps that are on, in this order: grey, blur, histogram equalization (whole, local), JPEG,
// erosion, posterizing, inversion, salt and pepper, HSV, Lab.
void AddNoise(const NoiseParameter& param, Draws& draws, Image* image);

}  // namespace crema
