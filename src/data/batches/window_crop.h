// Where a window of an image goes in a square sample.
#pragma once

#include "data/lists/window_file.h"

namespace crema {

struct WindowCropOptions {
  int size = 0;         // side of the sample
  int context_pad = 0;  // border of context in pixels of the sample
  bool square = false;  // widen the window to a square first
};

// The part of the image to cut out, the size to warp it to, and where to put that in the sample.
// What the sample shows of the outside of the image stays 0.
struct WindowPlacement {
  PixelBox part;
  int height = 0;
  int width = 0;
  int top = 0;
  int left = 0;
};

// With context or `square` the window is enlarged about its centre, so that after the warp its
// border is context_pad pixels wide, and clipped to the image. Requires: the window lies in the
// image; 2 * context_pad < size.
WindowPlacement PlaceWindow(const PixelBox& window, int image_height, int image_width, bool mirror,
                            const WindowCropOptions& options);

}  // namespace crema
