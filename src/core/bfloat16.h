// bfloat16: the upper half of a single-precision number, with 8 significant bits. A storage format
// only: arithmetic converts to float.
#pragma once

#include <bit>
#include <cstdint>

#include "core/dtype.h"

namespace crema {

struct BFloat16 {
  BFloat16() = default;
  // Rounds to nearest, ties to even; NaN stays NaN. Branchless, so that loops vectorise.
  BFloat16(float value) {  // NOLINT: implicit, so that loops read as those of other types
    const auto word = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = word + 0x7FFF + ((word >> 16) & 1);
    const uint32_t kept = value == value ? rounded : word | 0x400000;
    bits = static_cast<uint16_t>(kept >> 16);
  }
  operator float() const {  // NOLINT: as above
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }

  uint16_t bits;
};

template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::kBF16;
};

// Type in which values of type T are computed.
template <typename T>
struct ComputeOf {
  using Type = T;
};
template <>
struct ComputeOf<BFloat16> {
  using Type = float;
};
template <typename T>
using Compute = typename ComputeOf<T>::Type;

// Like DispatchFloat, plus BFloat16: for layers that support blobs in any format.
template <typename Body>
decltype(auto) DispatchStored(DType dtype, Body&& body) {
  if (dtype == DType::kBF16) return body(BFloat16{});
  return DispatchFloat(dtype, body);
}

// Returns true if this processor has bfloat16 products (AVX512-BF16) and a ChannelBlock() of 16.
// Otherwise nothing is stored as bfloat16.
bool HasBFloat16();

}  // namespace crema
