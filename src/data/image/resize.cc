// Replacement for builds without OpenCV.
#include "data/image/resize.h"

#include "core/error.h"

namespace crema {

#ifndef CREMA_HAVE_OPENCV
Image Resize(const Image&, int, int, Interpolation) {
  Fail(ErrorCode::kUnsupported, "this build has no OpenCV, so images cannot be resized");
}
#endif

}  // namespace crema
