// Elements of a type that is known when the test runs, as the stand-ins of libraries get them.
#pragma once

#include <cstdint>

#include "core/bfloat16.h"
#include "core/dtype.h"
#include "support/half.h"

namespace crema::test {

inline double LoadElement(DType dtype, const void* memory, int64_t index) {
  if (dtype == DType::kF16) return static_cast<float>(static_cast<const Half*>(memory)[index]);
  if (dtype == DType::kBF16) {
    return static_cast<float>(static_cast<const BFloat16*>(memory)[index]);
  }
  return static_cast<const float*>(memory)[index];
}

inline void StoreElement(DType dtype, void* memory, int64_t index, double value) {
  const auto number = static_cast<float>(value);
  if (dtype == DType::kF16) {
    static_cast<Half*>(memory)[index] = Half(number);
  } else if (dtype == DType::kBF16) {
    static_cast<BFloat16*>(memory)[index] = BFloat16(number);
  } else {
    static_cast<float*>(memory)[index] = number;
  }
}

// alpha * value + beta * old value, which is not read for beta 0.
inline void BlendElement(DType dtype, void* memory, int64_t index, double value, double alpha,
                         double beta) {
  const double before = beta == 0 ? 0 : beta * LoadElement(dtype, memory, index);
  StoreElement(dtype, memory, index, alpha * value + before);
}

}  // namespace crema::test
