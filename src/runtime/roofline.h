// What this machine can do at best, to compare layers with.
#pragma once

namespace crema {

struct Roofline {
  double gflops = 0;  // 1e9 f32 operations a second, a multiply-add counts as two
  double gbs = 0;     // 1e9 bytes a second to and from memory
};

// The best rate of our own matrix product on matrices that fit the cache; about 0.25 seconds.
double MeasurePeakGflops(int threads);
// The best rate of a = b + s * c on arrays far larger than the cache, bytes read and written; about
// 0.25 seconds and 192 MiB. Throws kOutOfMemory.
double MeasurePeakGbs(int threads);

}  // namespace crema
