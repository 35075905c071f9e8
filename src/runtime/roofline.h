// The peak rates of this machine, for comparison with layers.
#pragma once

namespace crema {

struct Roofline {
  double gflops = 0;  // 1e9 f32 operations a second, a multiply-add counts as two
  double gbs = 0;     // 1e9 bytes a second to and from memory
};

// Measures the best rate of Crema's matrix product on matrices that fit the cache; about 0.25
// seconds.
double MeasurePeakGflops(int threads);
// Measures the best rate of a = b + s * c on arrays far larger than the cache, bytes read and
// written; about 0.25 seconds and 192 MiB. Throws kOutOfMemory.
double MeasurePeakGbs(int threads);

}  // namespace crema
