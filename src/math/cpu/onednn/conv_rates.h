// Internal: measured speeds of number formats on this processor.
#pragma once

namespace crema::onednn {

// Returns the speed of a convolution that reads and writes bfloat16, relative to single precision;
// 0 if bfloat16 is not supported. The first call times one of each on one core (milliseconds), and
// rounds the ratio, so that plans do not change from run to run. Thread safety: any.
double BFloat16Gain();

}  // namespace crema::onednn
