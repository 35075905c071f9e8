// Changes of colour that augment_param draws, of images of bytes in the order blue, green, red.
// Results are rounded to the nearest byte and kept in 0..255. The definitions are those of
// torchvision (transforms/v2/functional/_color.py), which cuts off what is behind the point.
#pragma once

#include <cstdint>
#include <vector>

#include "data/augment/canvas.h"
#include "data/image/image.h"

namespace crema {

// The grey of a pixel is 0.299 red + 0.587 green + 0.114 blue (ITU-R BT.601).

void ScaleBrightness(double factor, Image* image);  // each value times the factor
// Distances from the mean grey of the image times the factor; without three channels, from the mean
// of all values.
void ScaleContrast(double factor, Image* image);
// Distances from the grey of the pixel times the factor. This one and the next two leave images
// alone that do not have three channels.
void ScaleSaturation(double factor, Image* image);
// Turns the hue by this part of the whole circle: 1/3 makes green of red.
void TurnHue(double turn, Image* image);
void RemoveColor(Image* image);  // grey, in three equal channels

// Replaces a rectangle, which must lie in the image, by one value a channel.
void FillPart(const PixelRect& part, const std::vector<uint8_t>& fill, Image* image);

}  // namespace crema
