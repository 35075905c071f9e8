// resize_param: images of another size, and the boxes in them.
#pragma once

#include "crema.pb.h"
#include "data/augment/box.h"
#include "data/augment/canvas.h"
#include "data/augment/draws.h"
#include "data/image/image.h"

namespace crema {

// The image is resized to `inner.height` x `inner.width` and lies at (top, left) of the result.
struct Fit {
  PixelRect inner;
  int height = 0;
  int width = 0;
};

// Requires: height and width of the parameter above 0.
Fit FitTo(const ResizeParameter& param, int height, int width);
// A box of the image, in units of the result.
Box FitBox(const Fit& fit, const Box& box);

// Resizes and pads; draws one of interp_mode. Throws kUnsupported without OpenCV.
Image ResizeToFit(const ResizeParameter& param, const Image& image, Draws& draws);

}  // namespace crema
