// The task of a model that takes an image.
#pragma once

#include <string>

#include "inference/image_model.h"

namespace crema {

// Returns the task that fits the layers and the shape of the only output: "classify", "detect" or
// "segment"; empty: none.
std::string FindImageTask(const ImageModel& model);

}  // namespace crema
