// Internal: measured speeds of number formats on this processor.
#pragma once

namespace crema::onednn {

// Returns how many times as fast as in single precision a convolution is that reads and writes
// bfloat16: one of each is timed on one core at the first call (milliseconds), and the ratio is
// rounded, so that plans do not change from run to run. 0 if bfloat16 is not supported. Thread
// safety: any.
double BFloat16Gain();

}  // namespace crema::onednn
