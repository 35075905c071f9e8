// Decodes the pictures of a job once: finds damaged ones, sizes and means.
#pragma once

#include <array>
#include <string>

#include "new/pictures.h"

namespace crema::tools {

struct Looks {
  int typical_side = 0;             // median of the longer sides, in pixels
  bool gray = true;                 // no picture has colors
  std::array<double, 3> mean = {};  // blue, green, red; each picture counts the same
};

// Decodes all pictures and label maps with `threads` threads. Those that cannot be read are an
// error that lists five of them, or with `skip_bad` are left out of `set`, with a warning. Sets the
// classes and shares of a set with label maps (SetClassesAndShares). Throws kDataLoss, also if none
// is left, and what CountLabels throws; kUnsupported without OpenCV for files that need it.
Looks LookAtPictures(int threads, bool skip_bad, PictureSet* set);

}  // namespace crema::tools
