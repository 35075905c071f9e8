// Internal: measured speeds of number formats on this processor.
#pragma once

namespace crema::onednn {

// Speeds of a convolution that reads and writes bfloat16, relative to single precision on blocked
// blobs; 0 if bfloat16 is not supported.
struct BFloat16Gains {
  double blocked = 0;
  // 0 also where it is not twice as fast as on blocked blobs, for which there are more
  // implementations. It is where oneDNN multiplies by tiles (AMX), which it does on this layout
  // only.
  double channels_last = 0;
};

// The first call times one convolution of each kind on one core (milliseconds), and rounds the
// ratios, so that plans seldom change from run to run. Thread safety: any.
BFloat16Gains MeasuredBFloat16Gains();

}  // namespace crema::onednn
