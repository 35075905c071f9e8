// Internal to LRN: scale^-beta, where the usual exponents need square roots only.
#pragma once

#include <cmath>
#include <cstdint>

namespace crema {

enum class LrnExponent { kThreeQuarters, kHalf, kOne, kOther };

inline LrnExponent LrnExponentOf(double beta) {
  if (beta == 0.75) return LrnExponent::kThreeQuarters;
  if (beta == 0.5) return LrnExponent::kHalf;
  return beta == 1 ? LrnExponent::kOne : LrnExponent::kOther;
}

template <typename T>
[[gnu::always_inline]] inline void LrnPower(int64_t count, LrnExponent kind, double beta,
                                            const T* scale, T* power) {
  if (kind == LrnExponent::kThreeQuarters) {
    for (int64_t i = 0; i < count; ++i) {
      const T root = std::sqrt(scale[i]);
      power[i] = 1 / (root * std::sqrt(root));
    }
  } else if (kind == LrnExponent::kHalf) {
    for (int64_t i = 0; i < count; ++i) power[i] = 1 / std::sqrt(scale[i]);
  } else if (kind == LrnExponent::kOne) {
    for (int64_t i = 0; i < count; ++i) power[i] = 1 / scale[i];
  } else {
    for (int64_t i = 0; i < count; ++i) power[i] = std::pow(scale[i], static_cast<T>(-beta));
  }
}

}  // namespace crema
