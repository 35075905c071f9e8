// Placement of an image window in a square sample.
#pragma once

#include "data/lists/window_file.h"

namespace crema {

struct WindowCropOptions {
  int size = 0;         // side of the sample
  int context_pad = 0;  // border of context, in sample pixels
  bool square = false;  // first widen the window to a square
};

// The part of the image to cut out, the size to warp it to, and its position in the sample. The
// rest of the sample stays 0.
struct WindowPlacement {
  PixelBox part;
  int height = 0;
  int width = 0;
  int top = 0;
  int left = 0;
};

// With context or `square`, enlarges the window about its centre so that its border is context_pad
// pixels wide after the warp, then clips it to the image. Requires: the window lies in the image; 2
// * context_pad < size.
WindowPlacement PlaceWindow(const PixelBox& window, int image_height, int image_width, bool mirror,
                            const WindowCropOptions& options);

}  // namespace crema
