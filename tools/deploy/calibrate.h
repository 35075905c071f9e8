// --precision=int8: ranges from the pictures of --calibrate.
#pragma once

#include <memory>

#include "inference/model.h"
#include "quantization/quantize.h"

namespace crema::tools {

// Whether --precision asks for bytes.
bool WantsInt8();

// Throws kInvalidArgument for flags that contradict each other: int8 without a list, a list
// without int8, rules that are none.
void CheckCalibrationFlags();

// The net of a model in single precision made ready for bytes, with what its card says of pixels.
// Throws what QuantizeModel throws, and kDataLoss for a picture that cannot be read.
QuantizeResult QuantizeOnPictures(const std::shared_ptr<const Model>& model);

}  // namespace crema::tools
