// Flags of detection.
#pragma once

#include <gflags/gflags.h>

#include "inference/detector.h"

DECLARE_string(tail);
DECLARE_double(confidence);
DECLARE_double(nms);

namespace crema::tools {

// Throws kInvalidArgument.
void CheckDetectFlags();

// Returns the changes of --nms; the caller handles --confidence.
DecoderChanges DecoderOfFlags();

}  // namespace crema::tools
