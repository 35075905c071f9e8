// Element types of a net's blobs: its floating type, or bytes of images.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace crema {

// Calls `body(T{})` with T = float, double or uint8_t. For code that handles any blob of a net;
// layers compute with DispatchFloat.
template <typename Body>
decltype(auto) DispatchBlob(DType dtype, Body&& body) {
  if (dtype == DType::kU8) return body(uint8_t{});
  return DispatchFloat(dtype, body);
}

// Returns true for floating types; only these have gradients and infinities.
inline bool IsFloatType(DType dtype) {
  return dtype != DType::kU8 && dtype != DType::kI32 && dtype != DType::kI64;
}

}  // namespace crema
