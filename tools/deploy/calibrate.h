// --precision=int8 and auto: determine ranges from the pictures of --calibrate.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "inference/image_model.h"
#include "inference/model.h"
#include "quantization/quantize.h"

namespace crema::tools {

// Returns true if --precision is int8.
bool WantsInt8();
// Returns true if --precision is auto (deploy/fastest_precision.h).
bool WantsFastest();

// Returns the paths of --calibrate. Throws kInvalidArgument if there are none.
std::vector<std::string> CalibrationPictures();
// Writes a picture as an input of the model, preprocessed as its card specifies. Throws kDataLoss
// for an unreadable picture.
void FillFromPicture(const ImageModel& images, const std::string& path, std::span<float> sample);

// Throws kInvalidArgument for conflicting flags: int8 or auto without a list, a list without
// these, unknown rules.
void CheckCalibrationFlags();

// Quantizes a single-precision model, preprocessing pictures as its card specifies. Throws what
// QuantizeModel throws, and kDataLoss for an unreadable picture.
QuantizeResult QuantizeOnPictures(const std::shared_ptr<const Model>& model);

}  // namespace crema::tools
