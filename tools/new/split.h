// Takes test pictures out of a set.
#pragma once

#include <cstdint>

#include "new/pictures.h"

namespace crema::tools {

// Moves a share of each class of `train` into the returned set: at least one of two pictures or
// more, and none of a single one. Without classes of pictures (detect, segment) all are one class.
// The choice depends on `seed` only. Requires: 0 < share < 1. Throws kInvalidArgument for a set of
// one picture.
PictureSet TakeTestPictures(double share, uint64_t seed, PictureSet* train);

}  // namespace crema::tools
