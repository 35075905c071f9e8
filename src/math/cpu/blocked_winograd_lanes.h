// Internal to Winograd convolution in channel blocks: a vector of 16 channels, and the one-axis
// transformations of F(4, 3) on such vectors.
#pragma once

#include <cstring>

#include "math/cpu/blocked_winograd_pass.h"

// Put before a function that computes with Lanes; functions that it calls must be inlined into it.
#if defined(__x86_64__)
#define CREMA_AVX512 [[gnu::target("avx512f,fma")]]
#else
#define CREMA_AVX512
#endif

namespace crema::blocked_winograd {

typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));  // NOLINT

[[gnu::always_inline]] inline void Load(const float* from, Lanes* to) {
  std::memcpy(to, from, sizeof(Lanes));
}
[[gnu::always_inline]] inline void Store(const Lanes& from, float* to) {
  std::memcpy(to, &from, sizeof(Lanes));
}

// B^T d: 6 inputs to 6.
[[gnu::always_inline]] inline void InputLine(const Lanes (&d)[6], Lanes (&to)[6]) {
  const Lanes even = d[4] - 4.0F * d[2], odd = d[3] - 4.0F * d[1];
  const Lanes near = d[4] - d[2], far = d[3] - d[1];
  to[0] = (d[4] - 5.0F * d[2]) + 4.0F * d[0];
  to[1] = even + odd;
  to[2] = even - odd;
  to[3] = near + 2.0F * far;
  to[4] = near - 2.0F * far;
  to[5] = (d[5] - 5.0F * d[3]) + 4.0F * d[1];
}

// A^T m: 6 products to 4 outputs.
[[gnu::always_inline]] inline void OutputLine(const Lanes (&m)[6], Lanes (&to)[4]) {
  const Lanes sum1 = m[1] + m[2], difference1 = m[1] - m[2];
  const Lanes sum2 = m[3] + m[4], difference2 = m[3] - m[4];
  to[0] = m[0] + sum1 + sum2;
  to[1] = difference1 + 2.0F * difference2;
  to[2] = sum1 + 4.0F * sum2;
  to[3] = difference1 + 8.0F * difference2 + m[5];
}

// A y: 4 gradients of outputs to 6.
[[gnu::always_inline]] inline void OutputGradientLine(const Lanes (&y)[4], Lanes (&to)[6]) {
  const Lanes even = y[0] + y[2], odd = y[1] + y[3];
  const Lanes even2 = y[0] + 4.0F * y[2], odd2 = 2.0F * y[1] + 8.0F * y[3];
  to[0] = y[0];
  to[1] = even + odd;
  to[2] = even - odd;
  to[3] = even2 + odd2;
  to[4] = even2 - odd2;
  to[5] = y[3];
}

// G g: 3 weights to 6.
[[gnu::always_inline]] inline void FilterLine(const Lanes (&g)[3], Lanes (&to)[6]) {
  const Lanes ends = g[0] + g[2];
  const Lanes far = (1.0F / 24) * g[0] + (1.0F / 6) * g[2];
  const Lanes middle = (1.0F / 12) * g[1];
  to[0] = 0.25F * g[0];
  to[1] = (-1.0F / 6) * (ends + g[1]);
  to[2] = (-1.0F / 6) * (ends - g[1]);
  to[3] = far + middle;
  to[4] = far - middle;
  to[5] = g[2];
}

// G^T p: 6 sums of products to the gradients of 3 weights.
[[gnu::always_inline]] inline void FilterGradientLine(const Lanes (&p)[6], Lanes (&to)[3]) {
  const Lanes sum1 = p[1] + p[2], sum2 = p[3] + p[4];
  to[0] = 0.25F * p[0] - (1.0F / 6) * sum1 + (1.0F / 24) * sum2;
  to[1] = (1.0F / 6) * (p[2] - p[1]) + (1.0F / 12) * (p[3] - p[4]);
  to[2] = (1.0F / 6) * (sum2 - sum1) + p[5];
}

}  // namespace crema::blocked_winograd
