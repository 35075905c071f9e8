// Whole numbers (places, labels) in blobs of floats.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace crema {

// Up to it, elements of this type tell all whole numbers apart.
inline int64_t LargestWhole(DType dtype) {
  if (dtype == DType::kF16) return 1 << 11;
  if (dtype == DType::kBF16) return 1 << 8;
  return dtype == DType::kF32 ? 1 << 24 : int64_t{1} << 53;
}

}  // namespace crema
