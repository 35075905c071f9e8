#include "data/augment/warp.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace crema {

Box WarpBox(const Warp& warp, const Box& box, int height, int width) {
  const double radians = warp.degrees * std::numbers::pi / 180;
  const double cosine = std::cos(radians);
  const double sine = std::sin(radians);
  Box out{.xmin = HUGE_VAL, .ymin = HUGE_VAL, .xmax = -HUGE_VAL, .ymax = -HUGE_VAL};
  for (const double corner_x : {box.xmin, box.xmax}) {
    for (const double corner_y : {box.ymin, box.ymax}) {
      const double x = warp.wide * (corner_x - 0.5) * width;
      const double y = warp.high * (corner_y - 0.5) * height;
      const double turned_x = 0.5 + (cosine * x + sine * y) / width;
      const double turned_y = 0.5 + (cosine * y - sine * x) / height;
      out.xmin = std::min(out.xmin, turned_x);
      out.xmax = std::max(out.xmax, turned_x);
      out.ymin = std::min(out.ymin, turned_y);
      out.ymax = std::max(out.ymax, turned_y);
    }
  }
  return out;
}

#ifndef CREMA_HAVE_OPENCV
Image WarpImage(const Warp&, const Image&, const std::vector<uint8_t>&) {
  Fail(ErrorCode::kUnsupported, "this build has no OpenCV, so images cannot be rotated or scaled");
}

void Blur(double, Image*) {
  Fail(ErrorCode::kUnsupported, "this build has no OpenCV, so images cannot be blurred");
}
#endif

}  // namespace crema
