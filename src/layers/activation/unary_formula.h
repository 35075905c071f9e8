// The operations of Unary, with the interface of elementwise.h, for the CPU and the GPU.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "layers/activation/formulas.h"

namespace crema {

using UnaryOperation = UnaryParameter::Operation;

// Returns true if the gradient is computed from y, otherwise from x.
CREMA_HOST_DEVICE inline bool GradientReadsOutput(UnaryOperation operation) {
  switch (operation) {
    case UnaryParameter::RECIPROCAL:
    case UnaryParameter::SQRT:
    case UnaryParameter::TAN:
    case UnaryParameter::SOFTPLUS:
    // Neither.
    case UnaryParameter::NEGATIVE:
    case UnaryParameter::FLOOR:
    case UnaryParameter::CEIL:
    case UnaryParameter::ROUND:
    case UnaryParameter::SIGN:
      return true;
    default:
      return operation >= UnaryParameter::NOT;  // these have none
  }
}

// The operations from SIN to ATANH. Inlined everywhere, as are those below, so that a loop with a
// constant operation has no switch.
template <typename T>
[[gnu::always_inline]] CREMA_HOST_DEVICE inline T TrigonometricValue(UnaryOperation operation,
                                                                     T x) {
  switch (operation) {
    case UnaryParameter::SIN:
      return std::sin(x);
    case UnaryParameter::COS:
      return std::cos(x);
    case UnaryParameter::TAN:
      return std::tan(x);
    case UnaryParameter::ASIN:
      return std::asin(x);
    case UnaryParameter::ACOS:
      return std::acos(x);
    case UnaryParameter::ATAN:
      return std::atan(x);
    case UnaryParameter::SINH:
      return std::sinh(x);
    case UnaryParameter::COSH:
      return std::cosh(x);
    case UnaryParameter::ASINH:
      return std::asinh(x);
    case UnaryParameter::ACOSH:
      return std::acosh(x);
    case UnaryParameter::ATANH:
      return std::atanh(x);
    default:
      return 0;
  }
}

template <typename T>
[[gnu::always_inline]] CREMA_HOST_DEVICE inline T UnaryValue(UnaryOperation operation, T alpha,
                                                             T beta, T x) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  switch (operation) {
    case UnaryParameter::NEGATIVE:
      return -x;
    case UnaryParameter::RECIPROCAL:
      return 1 / x;
    case UnaryParameter::SQRT:
      return std::sqrt(x);
    case UnaryParameter::FLOOR:
      return std::floor(x);
    case UnaryParameter::CEIL:
      return std::ceil(x);
    case UnaryParameter::ROUND:
      return std::rint(x);
    case UnaryParameter::SIGN:
      return x > 0 ? T(1) : (x < 0 ? T(-1) : x);  // NaN stays NaN
    case UnaryParameter::ERF:
      return FastErf(x);
    case UnaryParameter::SOFTPLUS:  // the exponent is never positive, so nothing overflows
      return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
    case UnaryParameter::SOFTSIGN:
      return x / (1 + std::abs(x));
    case UnaryParameter::SELU:
      return beta * (x > 0 ? x : alpha * std::expm1(x));
    case UnaryParameter::CELU:
      return x > 0 ? x : alpha * std::expm1(x / alpha);
    case UnaryParameter::THRESHOLDED_RELU:
      return x > alpha ? x : T(0);
    case UnaryParameter::SHRINK:
      return x > alpha ? x - beta : (x < -alpha ? x + beta : T(0));
    case UnaryParameter::NOT:
      return T(x == 0);
    case UnaryParameter::IS_NAN:
      return T(x != x);
    case UnaryParameter::IS_INF:
      return T(int(x == kInfinity) | int(x == -kInfinity));
    case UnaryParameter::IS_POSITIVE_INF:
      return T(x == kInfinity);
    case UnaryParameter::IS_NEGATIVE_INF:
      return T(x == -kInfinity);
    default:
      return TrigonometricValue(operation, x);
  }
}

template <typename T>
[[gnu::always_inline]] CREMA_HOST_DEVICE inline T TrigonometricSlope(UnaryOperation operation,
                                                                     T v) {
  switch (operation) {
    case UnaryParameter::SIN:
      return std::cos(v);
    case UnaryParameter::COS:
      return -std::sin(v);
    case UnaryParameter::TAN:
      return 1 + v * v;
    case UnaryParameter::ASIN:
      return 1 / std::sqrt(1 - v * v);
    case UnaryParameter::ACOS:
      return -1 / std::sqrt(1 - v * v);
    case UnaryParameter::ATAN:
      return 1 / (1 + v * v);
    case UnaryParameter::SINH:
      return std::cosh(v);
    case UnaryParameter::COSH:
      return std::sinh(v);
    case UnaryParameter::ASINH:
      return 1 / std::sqrt(v * v + 1);
    case UnaryParameter::ACOSH:
      return 1 / std::sqrt(v * v - 1);
    case UnaryParameter::ATANH:
      return 1 / (1 - v * v);
    default:  // steps
      return 0;
  }
}

// Returns the derivative; `v` is y if GradientReadsOutput, else x.
template <typename T>
[[gnu::always_inline]] CREMA_HOST_DEVICE inline T UnarySlope(UnaryOperation operation, T alpha,
                                                             T beta, T v) {
  switch (operation) {
    case UnaryParameter::NEGATIVE:
      return -1;
    case UnaryParameter::RECIPROCAL:
      return -v * v;
    case UnaryParameter::SQRT:
      return T(0.5) / v;
    case UnaryParameter::ERF:
      return T(2 * std::numbers::inv_sqrtpi) * FastExp(-v * v);
    case UnaryParameter::SOFTPLUS:
      return -std::expm1(-v);
    case UnaryParameter::SOFTSIGN:
      return 1 / ((1 + std::abs(v)) * (1 + std::abs(v)));
    case UnaryParameter::SELU:
      return beta * (v > 0 ? T(1) : alpha * std::exp(v));
    case UnaryParameter::CELU:
      return v > 0 ? T(1) : std::exp(v / alpha);
    case UnaryParameter::THRESHOLDED_RELU:
      return T(v > alpha);
    case UnaryParameter::SHRINK:
      return T(int(v > alpha) | int(v < -alpha));
    default:
      return TrigonometricSlope(operation, v);
  }
}

// Reads unary_param. Throws if a number is not finite, or not one of the operation.
struct UnaryFormula : Grains<kCheapGrain / 4> {
  explicit UnaryFormula(const Layer& layer);

  // Returns false for operations that give truth values.
  bool has_gradient() const { return operation < UnaryParameter::NOT; }
  CREMA_HOST_DEVICE bool reads_output() const { return GradientReadsOutput(operation); }

  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    return UnaryValue(operation, T(alpha), T(beta), x);
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T x_or_y, T dy) const {
    return dy * UnarySlope(operation, T(alpha), T(beta), x_or_y);
  }

  UnaryOperation operation;
  float alpha = 0;
  float beta = 0;
};

}  // namespace crema
