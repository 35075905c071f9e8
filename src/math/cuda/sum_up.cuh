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

// y = start + the sum of factor * x; `start` may be null, or y. y may be one of x.
template <typename T>
static void SumUp(const CudaQueue& queue, int64_t count, const Operands<T>& operands,
                  const T* start, T* y) {
  const T *first = operands.x[0], *second = operands.x[1];
  const float by = operands.factor[0], by_second = operands.factor[1];
  if (operands.count == 2 && start == nullptr) {
    return SetElements(queue, "SumUp", count, y, [=] CREMA_HOST_DEVICE(int64_t i) {
      return by * ToFloat(first[i]) + by_second * ToFloat(second[i]);
    });
  }
  SetElements(queue, "SumUp", count, y, [=] CREMA_HOST_DEVICE(int64_t i) {
    float sum = by * ToFloat(first[i]);
    if (start != nullptr) sum += ToFloat(start[i]);
    // A constant bound: with a variable one, each thread would copy the arrays to its own memory.
    for (int k = 1; k < Operands<T>::kMost; ++k) {
      if (k < operands.count) sum += operands.factor[k] * ToFloat(operands.x[k][i]);
    }
    return sum;
  });
}

}  // namespace crema
