// exp, sigmoid, tanh, erf and erfc that the compiler can vectorise, which it cannot do with the
// functions of the standard library. In f64 they are the standard ones.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/host_device.h"

namespace crema {

// e^x = series * 2^power for x from -86.6 to 88.72: power = round(x / ln 2), and the Taylor series
// of e^r for the remainder, |r| <= ln 2 / 2. For NaN the series is NaN.
struct ExpParts {
  float series;
  int32_t power;
};
CREMA_HOST_DEVICE inline ExpParts SplitExp(float x) {
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0x1.62e4p-1F, kLn2Low = 0x1.7f7d1cp-20F;  // k times kLn2High is exact
  constexpr float kRound = 0x1.8p23F;  // adding it leaves the nearest integer in the last bits
  const float shifted = x * kLog2E + kRound;
  const float k = shifted - kRound;
  const float r = (x - k * kLn2High) - k * kLn2Low;
  float series = 1.0F / 5040;
  series = series * r + 1.0F / 720;
  series = series * r + 1.0F / 120;
  series = series * r + 1.0F / 24;
  series = series * r + 1.0F / 6;
  series = series * r + 0.5F;
  series = series * r + 1;
  series = series * r + 1;
  return {series, std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRound)};
}

// Computes e^x within 2 units in the last place; returns 0 if the result would be below 2^-125.
CREMA_HOST_DEVICE inline float FastExp(float x) {
  constexpr float kLow = -86.6F, kHigh = 88.72F;
  const ExpParts parts = SplitExp(x < kLow ? kLow : (x > kHigh ? kHigh : x));
  // In two factors, as 2^128 is not a float.
  const float scale = std::bit_cast<float>((parts.power + 126) << 23);
  const float result = parts.series * scale * 2;
  if (x < kLow) return 0;
  return x > kHigh ? std::numeric_limits<float>::infinity() : result;
}
CREMA_HOST_DEVICE inline double FastExp(double x) { return std::exp(x); }

// Returns 1 / (1 + e^-x).
template <typename T>
CREMA_HOST_DEVICE inline T FastSigmoid(T x) {
  return T(1) / (T(1) + FastExp(-x));
}

// Uses the continued fraction near 0, because 1 - 2 / (e^2x + 1) would cancel there.
CREMA_HOST_DEVICE inline float FastTanh(float x) {
  const float square = x * x;
  const float small = x * (945 + square * (105 + square)) / (945 + square * (420 + square * 15));
  const float large = 1 - 2 / (FastExp(2 * x) + 1);
  return square < 0.3F ? small : large;
}
CREMA_HOST_DEVICE inline double FastTanh(double x) { return std::tanh(x); }

// Computes erfc(x). The relative error grows from 4 units in the last place at 0 to 40 at 9, where
// x^2 has lost as much precision. erfc(x) e^(x^2) / t is a polynomial in t = 1 / (1 + x / 2),
// fitted for 0 <= x <= 10 to a relative error of 5e-8; for x < 0, erfc(x) = 2 - erfc(-x).
CREMA_HOST_DEVICE inline float FastErfc(float x) {
  const float sign = x < 0 ? -1.0F : 1.0F;
  const float size = sign * x;
  const float t = 1 / (1 + 0.5F * size);
  float series = -0.060154940F;
  series = series * t + 0.28966594F;
  series = series * t - 0.49727186F;
  series = series * t + 0.28900509F;
  series = series * t - 0.033724614F;
  series = series * t + 0.20549280F;
  series = series * t + 0.24244736F;
  series = series * t + 0.28245804F;
  series = series * t + 0.28208213F;
  const float tail = t * series * FastExp(-size * size);
  return (1 - sign) + sign * tail;
}
CREMA_HOST_DEVICE inline double FastErfc(double x) { return std::erfc(x); }

// Uses the Taylor series near 0, because 1 - erfc(x) would cancel there.
CREMA_HOST_DEVICE inline float FastErf(float x) {
  const float square = x * x;
  float series = -1.0F / 1320;
  series = series * square + 1.0F / 216;
  series = series * square - 1.0F / 42;
  series = series * square + 0.1F;
  series = series * square - 1.0F / 3;
  series = series * square + 1;
  const float large = 1 - FastErfc(x);
  return square < 0.25F ? 1.12837917F * x * series : large;
}
CREMA_HOST_DEVICE inline double FastErf(double x) { return std::erf(x); }

}  // namespace crema
