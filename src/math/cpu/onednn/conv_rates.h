// Internal: what this processor and the oneDNN of this build make of number formats.
#pragma once

namespace crema::onednn {

// How many times as fast as in single precision a convolution is that reads and writes bfloat16:
// the time of one of each, measured on one core when it is asked for the first time (milliseconds),
// and rounded, so that plans do not change from run to run. 0 where it cannot be run. Thread
// safety: any.
double BFloat16Gain();

}  // namespace crema::onednn
