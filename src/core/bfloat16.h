// bfloat16: the upper half of a single-precision number, so 8 significant bits. For storage only:
// it widens to float wherever it is computed with.
#pragma once

#include <bit>
#include <cstdint>

#include "core/dtype.h"

namespace crema {

struct BFloat16 {
  BFloat16() = default;
  // To the nearest, ties to even; NaN stays one. Without branches, so that loops are vectorised.
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

// What elements of type T are computed in.
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

// As DispatchFloat, and BFloat16 too: for layers that take blobs in any memory format.
template <typename Body>
decltype(auto) DispatchStored(DType dtype, Body&& body) {
  if (dtype == DType::kBF16) return body(BFloat16{});
  return DispatchFloat(dtype, body);
}

// Whether this processor multiplies bfloat16 itself (AVX512-BF16) and has blocks for it
// (ChannelBlock() is 16). Where it is false nothing is stored so.
bool HasBFloat16();

}  // namespace crema
