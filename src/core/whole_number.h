// Whole numbers as floats.
#pragma once

#include <concepts>
#include <limits>

namespace crema {

// Returns true if single precision holds the number exactly: all of them up to 2^24, few beyond.
template <std::integral Int>
constexpr bool IsExactFloat(Int value) {
  if constexpr (std::numeric_limits<Int>::digits <= 24) return true;
  constexpr float kBeyond =
      2 * static_cast<float>(Int{1} << (std::numeric_limits<Int>::digits - 1));
  const auto rounded = static_cast<float>(value);
  return rounded < kBeyond && static_cast<Int>(rounded) == value;
}

}  // namespace crema
