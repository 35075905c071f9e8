#include "data/image/draw_boxes.h"

#include "core/error.h"

namespace crema {

#ifndef CREMA_HAVE_OPENCV
std::string DrawBoxes(std::string_view, const std::string& name, std::span<const CaptionedBox>,
                      const std::string&) {
  Fail(ErrorCode::kUnsupported,
       name +
           ": drawing needs OpenCV, and this program was built without it: build with "
           "CREMA_OPENCV=ON");
}
#endif

}  // namespace crema
