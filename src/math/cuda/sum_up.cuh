// Weighted elementwise sums of several tensors.
#pragma once

#include "math/cuda/launch.cuh"

namespace crema {

// Tensors that one kernel reads.
template <typename T>
struct Operands {
  static constexpr int kMost = 8;
  const T* x[kMost];
  float factor[kMost];
  int count;  // 1 or more
};

// y = start + the sum of factor * x; `start` may be null, or y. Each element is read before it is
// written, so y may be one of x.
template <typename T>
static void SumUp(const CudaQueue& queue, int64_t count, const Operands<T>& operands,
                  const T* start, T* y) {
  ForElements(queue, "SumUp", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    float sum = operands.factor[0] * ToFloat(operands.x[0][i]);
    if (start != nullptr) sum += ToFloat(start[i]);
    for (int k = 1; k < operands.count; ++k) sum += operands.factor[k] * ToFloat(operands.x[k][i]);
    y[i] = FromFloat<T>(sum);
  });
}

}  // namespace crema
