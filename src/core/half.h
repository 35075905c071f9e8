// Half precision (IEEE 754 binary16) on the host: a storage format of files.
#pragma once

#include <bit>
#include <cmath>
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

// Returns the bits of the nearest half, ties to even. Numbers beyond the range become infinity, a
// NaN stays one.
inline uint16_t FloatToHalf(float value) {
  const auto sign = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16 & 0x8000u);
  const float magnitude = std::abs(value);
  if (!(magnitude < 65520)) return sign | (std::isnan(value) ? 0x7E00u : 0x7C00u);
  if (magnitude < 0x1p-14F) {  // steps of 2^-24
    return sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24F));
  }
  const uint32_t rest = std::bit_cast<uint32_t>(magnitude) - (uint32_t{127 - 15} << 23);
  return sign | static_cast<uint16_t>((rest + 0xFFF + (rest >> 13 & 1)) >> 13);
}

}  // namespace crema
