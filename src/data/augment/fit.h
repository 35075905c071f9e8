// resize_param: resizes images and their boxes.
#pragma once

#include "crema.pb.h"
#include "data/augment/box.h"
#include "data/augment/canvas.h"
#include "data/augment/draws.h"
#include "data/image/image.h"

namespace crema {

// The image is resized to `inner.height` x `inner.width` and placed at (top, left) of the result.
struct Fit {
  PixelRect inner;
  int height = 0;
  int width = 0;
};

// Requires: height and width of the parameter are above 0.
Fit FitTo(const ResizeParameter& param, int height, int width);
// Converts a box of the image to units of the result.
Box FitBox(const Fit& fit, const Box& box);

// Resizes and pads; draws one of the values of interp_mode. Throws kUnsupported without OpenCV.
Image ResizeToFit(const ResizeParameter& param, const Image& image, Draws& draws);

}  // namespace crema
