// Integers (indices, labels) stored as floats.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace crema {

// Returns the largest n such that the type represents all integers 0..n exactly.
inline int64_t LargestWhole(DType dtype) {
  if (dtype == DType::kF16) return 1 << 11;
  if (dtype == DType::kBF16) return 1 << 8;
  return dtype == DType::kF32 ? 1 << 24 : int64_t{1} << 53;
}

}  // namespace crema
