// Replacement for builds without OpenCV.
#include "data/image/encode_image.h"

#include "core/error.h"

namespace crema {

#ifndef CREMA_HAVE_OPENCV
std::string EncodeImage(const Image&, const std::string&, int) {
  Fail(ErrorCode::kUnsupported, "this build has no OpenCV, so image files cannot be written");
}
#endif

}  // namespace crema
