// Flags about detection.
#pragma once

#include <gflags/gflags.h>

#include "inference/detector.h"

DECLARE_string(tail);
DECLARE_double(confidence);
DECLARE_double(nms);

namespace crema::tools {

// Throws kInvalidArgument.
void CheckDetectFlags();

// Those of --nms; --confidence is the caller's.
DecoderChanges DecoderOfFlags();

}  // namespace crema::tools
