// Half precision (IEEE 754 binary16) on the host: a storage format of files.
#pragma once

#include <bit>
#include <cstdint>

namespace crema {

// Returns the value of the half with these bits, exactly.
inline float HalfToFloat(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t exponent = half >> 10 & 0x1F;
  const uint32_t fraction = half & 0x3FF;
  if (exponent == 0) {  // zero, or a subnormal: fraction * 2^-24
    const float value = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -value : value;
  }
  const uint32_t bits = exponent == 31 ? 0x7F800000u | fraction << 13
                                       : (exponent + (127 - 15)) << 23 | fraction << 13;
  return std::bit_cast<float>(sign | bits);
}

}  // namespace crema
