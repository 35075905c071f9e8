#include "data/batches/window_crop.h"

#include <algorithm>
#include <cmath>

namespace crema {
namespace {

// One axis: an interval of the image, and how much clipping cut off at each end of the enlarged
// window.
struct Side {
  int begin = 0;
  int end = 0;  // inclusive
  int before = 0;
  int after = 0;
  int Length() const { return end - begin + 1; }
  int Whole() const { return Length() + before + after; }
};

Side Enlarge(double centre, double half, int size) {
  constexpr double kFar = 1e9;  // outside of any image, and the sum of two fits an int
  Side side{.begin = static_cast<int>(std::lround(std::max(centre - half, -kFar))),
            .end = static_cast<int>(std::lround(std::min(centre + half, kFar)))};
  side.before = std::max(0, -side.begin);
  side.after = std::max(0, side.end - size + 1);
  side.begin += side.before;
  side.end -= side.after;
  return side;
}

// Sample pixels: the length of the part, and the padding before it.
struct Warped {
  int length = 0;
  int before = 0;
};

Warped Warp(const Side& side, int free_pixels, int size) {
  const double scale = static_cast<double>(size) / side.Whole();
  Warped warped{.length = static_cast<int>(std::lround(side.Length() * scale)),
                .before = static_cast<int>(std::lround(free_pixels * scale))};
  // Rounding may exceed the sample by one pixel, or reduce a part of one pixel to nothing.
  warped.length = std::clamp(warped.length, 1, size);
  warped.before = std::min(warped.before, size - 1);
  warped.length = std::min(warped.length, size - warped.before);
  return warped;
}

}  // namespace

WindowPlacement PlaceWindow(const PixelBox& window, int image_height, int image_width, bool mirror,
                            const WindowCropOptions& options) {
  if (options.context_pad == 0 && !options.square) {
    return {.part = window, .height = options.size, .width = options.size};
  }
  const double context = static_cast<double>(options.size) /
                         (options.size - 2.0 * static_cast<double>(options.context_pad));
  double half_height = (window.y2 - window.y1 + 1) / 2.0;
  double half_width = (window.x2 - window.x1 + 1) / 2.0;
  const double centre_y = window.y1 + half_height;
  const double centre_x = window.x1 + half_width;
  if (options.square) half_height = half_width = std::max(half_height, half_width);
  const Side y = Enlarge(centre_y, half_height * context, image_height);
  const Side x = Enlarge(centre_x, half_width * context, image_width);
  const Warped rows = Warp(y, y.before, options.size);
  const Warped columns = Warp(x, mirror ? x.after : x.before, options.size);
  return {.part = {.x1 = x.begin, .y1 = y.begin, .x2 = x.end, .y2 = y.end},
          .height = rows.length,
          .width = columns.length,
          .top = rows.before,
          .left = columns.before};
}

}  // namespace crema
