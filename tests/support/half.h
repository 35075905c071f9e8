// Half-precision numbers of GPUs (f16: 5 bits of exponent, 11 significant ones) on the host.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "core/bfloat16.h"

namespace crema {

struct Half {
  Half() = default;
  // To the nearest, ties to even; beyond 65519 infinite.
  explicit Half(float value) {
    const auto word = std::bit_cast<uint32_t>(value);
    const uint32_t size = word & 0x7FFFFFFF;
    uint32_t kept = 0;
    if (size > 0x7F800000) {
      kept = 0x7E00;  // NaN
    } else if (size >= 0x477FF000) {
      kept = 0x7C00;
    } else if (size < 0x38800000) {  // below 2^-14: steps of 2^-24
      kept = static_cast<uint32_t>(std::nearbyint(std::abs(value) * 0x1p24F));
    } else {
      kept = (size + 0xFFF + ((size >> 13) & 1) - 0x38000000) >> 13;
    }
    bits = static_cast<uint16_t>((word >> 31 << 15) | kept);
  }
  explicit operator float() const {
    const int exponent = (bits >> 10) & 31;
    const int digits = bits & 0x3FF;
    float size = std::ldexp(static_cast<float>(1024 + digits), exponent - 25);
    if (exponent == 0) size = std::ldexp(static_cast<float>(digits), -24);
    if (exponent == 31) size = digits == 0 ? INFINITY : NAN;
    return bits >> 15 != 0 ? -size : size;
  }

  uint16_t bits;
};

template <>
struct DTypeOf<Half> {
  static constexpr DType value = DType::kF16;
};
template <>
struct ComputeOf<Half> {
  using Type = float;
};

}  // namespace crema
