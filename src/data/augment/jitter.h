// Colour changes that augment_param draws, for byte images in BGR order. Results are rounded to the
// nearest byte and clamped to 0..255. Definitions follow torchvision
// (transforms/v2/functional/_color.py), which truncates instead of rounding.
#pragma once

#include <cstdint>
#include <vector>

#include "data/augment/canvas.h"
#include "data/image/image.h"

namespace crema {

// Grey of a pixel = 0.299 red + 0.587 green + 0.114 blue (ITU-R BT.601).

void ScaleBrightness(double factor, Image* image);  // multiplies each value
// Multiplies distances from the mean grey of the image. Without three channels, it uses the mean of
// all values.
void ScaleContrast(double factor, Image* image);
// Multiplies distances from the grey of the pixel. This function and the next two do nothing unless
// the image has three channels.
void ScaleSaturation(double factor, Image* image);
// Rotates the hue by this share of the circle: 1/3 turns green into red.
void RotateHue(double turn, Image* image);
void RemoveColor(Image* image);  // grey in three equal channels

// Fills a rectangle with one value per channel. Requires: the rectangle lies in the image.
void FillPart(const PixelRect& part, const std::vector<uint8_t>& fill, Image* image);

}  // namespace crema
