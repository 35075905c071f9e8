// Stands in where OpenCV is left out of the build.
#include "data/image/draw_boxes.h"

#include "core/error.h"

namespace crema {

#ifndef CREMA_HAVE_OPENCV
namespace {
[[noreturn]] void FailWithoutOpenCv() {
  Fail(ErrorCode::kUnsupported,
       "drawing needs OpenCV, and this program was built without it: build with CREMA_OPENCV=ON");
}
}  // namespace

void DrawBoxes(std::span<const CaptionedBox>, Image*) { FailWithoutOpenCv(); }
void DrawBars(std::span<const CaptionedBar>, Image*) { FailWithoutOpenCv(); }
std::string EncodePicture(const Image&, const std::string&) { FailWithoutOpenCv(); }
#endif

}  // namespace crema
