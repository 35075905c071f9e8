// Softmax along the middle axis of a (outer, classes, inner) block; f32 and f64.
#pragma once

#include <cstdint>

namespace crema {

struct SoftmaxSize {
  int64_t outer = 0;
  int64_t classes = 0;
  int64_t inner = 0;
};

// Most classes of rows (inner = 1) that are computed side by side. There the functions below are
// faster than oneDNN, and slower with more classes.
inline constexpr int64_t kShortSoftmaxRow = 24;

// y = exp(x - max x) / sum, or its logarithm. y may be x.
template <typename T>
void SoftmaxForward(int threads, const SoftmaxSize& size, const T* x, T* y);
template <typename T>
void LogSoftmaxForward(int threads, const SoftmaxSize& size, const T* x, T* y);

// dx = y * (dy - sum dy * y), or dy - exp y * sum dy for the logarithm. dx may be dy.
template <typename T>
void SoftmaxBackward(int threads, const SoftmaxSize& size, const T* y, const T* dy, T* dx);
template <typename T>
void LogSoftmaxBackward(int threads, const SoftmaxSize& size, const T* y, const T* dy, T* dx);

}  // namespace crema
