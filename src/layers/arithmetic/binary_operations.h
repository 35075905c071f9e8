// The operations of Binary on one pair of elements, for the CPU and the GPU.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "core/host_device.h"
#include "crema.pb.h"

namespace crema {

using BinaryOperation = BinaryParameter::Operation;

// The operands that the gradient of one of them depends on.
struct GradientReads {
  bool a = false;
  bool b = false;
};

// Returns them for the gradient of operand 0 (a) or 1 (b).
inline GradientReads ReadsOf(BinaryOperation operation, int operand) {
  switch (operation) {
    case BinaryParameter::MUL:
      return {.a = operand == 1, .b = operand == 0};
    case BinaryParameter::DIV:
    case BinaryParameter::PRELU:
      return {.a = operation == BinaryParameter::PRELU || operand == 1,
              .b = operation == BinaryParameter::DIV || operand == 0};
    case BinaryParameter::POW:
    case BinaryParameter::MAX:
    case BinaryParameter::MIN:
      return {.a = true, .b = true};
    case BinaryParameter::MOD:
    case BinaryParameter::FMOD:
      return {.a = operand == 1, .b = operand == 1};
    default:
      return {};
  }
}

// Returns false for comparisons, and for operations on truth values and on bits.
inline bool HasGradient(BinaryOperation operation) { return operation < BinaryParameter::EQUAL; }

// Returns a whole number; 0 for NaN and for what 62 bits cannot hold.
template <typename T>
CREMA_HOST_DEVICE inline int64_t ToWhole(T x) {
  constexpr T kLimit = T(int64_t{1} << 62);
  return x > -kLimit && x < kLimit ? static_cast<int64_t>(x) : 0;
}

// Returns a * 2^power.
template <typename T>
CREMA_HOST_DEVICE inline T Shifted(T a, int64_t power) {
  constexpr int64_t kMost = 4096;
  const int64_t within = power < -kMost ? -kMost : (power > kMost ? kMost : power);
  return std::ldexp(a, static_cast<int>(within));
}

// Returns the remainder of a / b with the sign of b.
template <typename T>
CREMA_HOST_DEVICE inline T FlooredRemainder(T a, T b) {
  const T rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// Returns a^b. Common powers take a fraction of the time.
template <typename T>
CREMA_HOST_DEVICE inline T PowerOf(T a, T b) {
  if (b == 2) return a * a;
  if (b == 3) return a * a * a;
  if (b == T(0.5) && a > 0) return std::sqrt(a);
  return std::pow(a, b);
}

// The operations without a gradient. Inlined everywhere, as are those below, so that a loop with a
// constant operation has no switch.
template <typename T>
[[gnu::always_inline]] CREMA_HOST_DEVICE inline T BinaryStep(BinaryOperation operation, T a, T b) {
  switch (operation) {
    case BinaryParameter::EQUAL:
      return T(a == b);
    case BinaryParameter::LESS:
      return T(a < b);
    case BinaryParameter::LESS_OR_EQUAL:
      return T(a <= b);
    case BinaryParameter::GREATER:
      return T(a > b);
    case BinaryParameter::GREATER_OR_EQUAL:
      return T(a >= b);
    case BinaryParameter::AND:
      return T(int(a != 0) & int(b != 0));
    case BinaryParameter::OR:
      return T(int(a != 0) | int(b != 0));
    case BinaryParameter::XOR:
      return T(int(a != 0) ^ int(b != 0));
    case BinaryParameter::BITWISE_AND:
      return T(ToWhole(a) & ToWhole(b));
    case BinaryParameter::BITWISE_OR:
      return T(ToWhole(a) | ToWhole(b));
    case BinaryParameter::BITWISE_XOR:
      return T(ToWhole(a) ^ ToWhole(b));
    case BinaryParameter::SHIFT_LEFT:
      return Shifted(a, ToWhole(b));
    case BinaryParameter::SHIFT_RIGHT:
      return std::floor(Shifted(a, -ToWhole(b)));
    default:
      return 0;
  }
}

template <typename T>
[[gnu::always_inline]] CREMA_HOST_DEVICE inline T BinaryValue(BinaryOperation operation, T a, T b) {
  switch (operation) {
    case BinaryParameter::ADD:
      return a + b;
    case BinaryParameter::SUB:
      return a - b;
    case BinaryParameter::MUL:
      return a * b;
    case BinaryParameter::DIV:
      return a / b;
    case BinaryParameter::POW:
      return PowerOf(a, b);
    case BinaryParameter::MAX:
      return a > b || a != a ? a : b;
    case BinaryParameter::MIN:
      return a < b || a != a ? a : b;
    case BinaryParameter::MOD:
      return FlooredRemainder(a, b);
    case BinaryParameter::FMOD:
      return std::fmod(a, b);
    case BinaryParameter::INTEGER_DIV:
      return T(std::trunc(double(a) / double(b)));  // a float quotient may round up
    case BinaryParameter::PRELU:
      return a >= 0 ? a : a * b;
    default:
      return BinaryStep(operation, a, b);
  }
}

// Returns the gradient of the exponent. 0 to a positive power is 0 whatever the exponent.
template <typename T>
CREMA_HOST_DEVICE inline T ExponentGradient(T a, T b) {
  return a == 0 && b >= 0 ? T(0) : std::pow(a, b) * std::log(a);
}

// Returns the gradient of operand 0 (a) or 1 (b). Only the operands of ReadsOf matter.
template <typename T>
[[gnu::always_inline]] CREMA_HOST_DEVICE inline T BinaryGradient(BinaryOperation operation,
                                                                 int operand, T a, T b, T dy) {
  const bool first = operand == 0;
  switch (operation) {
    case BinaryParameter::ADD:
      return dy;
    case BinaryParameter::SUB:
      return first ? dy : -dy;
    case BinaryParameter::MUL:
      return dy * (first ? b : a);
    case BinaryParameter::DIV:
      return first ? dy / b : -dy * (a / b) / b;
    case BinaryParameter::POW:
      if (!first) return dy * ExponentGradient(a, b);
      return b == 0 ? T(0) : dy * b * (b == 2 ? a : PowerOf(a, b - 1));
    case BinaryParameter::MAX:
      return (a >= b) == first ? dy : T(0);
    case BinaryParameter::MIN:
      return (a <= b) == first ? dy : T(0);
    case BinaryParameter::MOD:
      return first ? dy : -dy * std::floor(a / b);
    case BinaryParameter::FMOD:
      return first ? dy : -dy * std::trunc(a / b);
    case BinaryParameter::PRELU:
      if (first) return a >= 0 ? dy : dy * b;
      return a >= 0 ? T(0) : dy * a;
    default:  // steps
      return 0;
  }
}

}  // namespace crema
