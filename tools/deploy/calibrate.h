// --precision=int8: determines ranges from the pictures of --calibrate.
#pragma once

#include <memory>

#include "inference/model.h"
#include "quantization/quantize.h"

namespace crema::tools {

// Returns true if --precision is int8.
bool WantsInt8();

// Throws kInvalidArgument for conflicting flags: int8 without a list, a list without int8, unknown
// rules.
void CheckCalibrationFlags();

// Quantizes a single-precision model, preprocessing pictures as its card specifies. Throws what
// QuantizeModel throws, and kDataLoss for an unreadable picture.
QuantizeResult QuantizeOnPictures(const std::shared_ptr<const Model>& model);

}  // namespace crema::tools
