// Formulas of the element-wise layers, for the CPU and the GPU. elementwise.h describes their
// interface.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "core/host_device.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "layers/layer_number.h"
#include "math/fast_exp.h"
#include "math/fused_activation.h"
#include "math/relu_rule.h"

namespace crema {

// Minimum elements per thread: for a few additions and products, or for exp and similar functions.
constexpr int64_t kCheapGrain = 1 << 14;
constexpr int64_t kCostlyGrain = 1 << 11;

// Minimum elements per thread of Value and of Gradient.
template <int64_t kForward, int64_t kBackward = kForward>
struct Grains {
  static constexpr int64_t kForwardGrain = kForward;
  static constexpr int64_t kBackwardGrain = kBackward;
};

struct AbsValFormula : Grains<kCheapGrain> {
  explicit AbsValFormula(const Layer&) {}
  CREMA_HOST_DEVICE bool reads_output() const { return false; }

  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    return std::abs(x);
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T x, T dy) const {
    return dy * static_cast<T>((x > 0) - (x < 0));
  }
};

struct BnllFormula : Grains<kCostlyGrain> {
  explicit BnllFormula(const Layer&) {}
  CREMA_HOST_DEVICE bool reads_output() const { return true; }

  // The exponent is never positive, so nothing overflows.
  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T y, T dy) const {
    return dy * -std::expm1(-y);
  }
};

// NaN where x may be a whole number that was rounded.
struct CheckWholeFormula : Grains<kCheapGrain> {
  explicit CheckWholeFormula(const Layer&) {}
  CREMA_HOST_DEVICE bool reads_output() const { return true; }

  template <typename T>
  CREMA_HOST_DEVICE static bool IsExact(T x) {
    constexpr T kLimit = T(int64_t{1} << std::numeric_limits<T>::digits);
    return x > -kLimit && x < kLimit;
  }
  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    return IsExact(x) ? x : std::numeric_limits<T>::quiet_NaN();
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T, T dy) const {
    return dy;
  }
};

struct ClipFormula : Grains<kCheapGrain> {
  explicit ClipFormula(const Layer& layer) {
    const ClipParameter& param = layer.param().clip_param();
    if (!param.has_min()) FailField(layer, "clip_param.min", "min is missing; it has no default");
    if (!param.has_max()) FailField(layer, "clip_param.max", "max is missing; it has no default");
    low = param.min();
    high = param.max();
    if (!(low <= high)) {  // also if one is NaN
      FailField(layer, "clip_param.max",
                StrCat("max is ", high, " and min is ", low, "; expected min <= max"));
    }
  }
  CREMA_HOST_DEVICE bool reads_output() const { return false; }
  FusedActivation fused() const { return {FusedActivation::Kind::kClip, low, high}; }

  // NaN stays NaN: no comparison with it holds.
  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    return std::min(std::max(x, T(low)), T(high));
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T x, T dy) const {
    return x >= T(low) && x <= T(high) ? dy : T(0);
  }

  float low = 0;
  float high = 0;
};

struct EluFormula : Grains<kCostlyGrain, kCheapGrain> {
  explicit EluFormula(const Layer& layer)
      : alpha(FiniteNumber(layer, layer.param().elu_param().alpha(), "elu_param.alpha")),
        lambda(FiniteNumber(layer, layer.param().elu_param().lambda(), "elu_param.lambda")) {}
  CREMA_HOST_DEVICE bool reads_output() const { return alpha >= 0 && lambda > 0; }
  FusedActivation fused() const {
    return lambda == 1 ? FusedActivation{FusedActivation::Kind::kElu, alpha} : FusedActivation{};
  }

  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    return T(lambda) * (x > 0 ? x : T(alpha) * std::expm1(x));
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T x_or_y, T dy) const {
    if (x_or_y > 0) return dy * T(lambda);
    if (reads_output()) return dy * (x_or_y + T(lambda) * T(alpha));
    return dy * (T(lambda) * T(alpha) * std::exp(x_or_y));
  }

  float alpha;
  float lambda;
};

struct ExpFormula : Grains<kCostlyGrain, kCheapGrain> {
  explicit ExpFormula(const Layer& layer) {
    const ExpParameter& param = layer.param().exp_param();
    const double base = FiniteNumber(layer, param.base(), "exp_param.base");
    const double scale = FiniteNumber(layer, param.scale(), "exp_param.scale");
    const double shift = FiniteNumber(layer, param.shift(), "exp_param.shift");
    if (!(base > 0 || base == -1)) {
      FailField(layer, "exp_param.base",
                StrCat("base is ", base, ", expected more than 0, or -1 for e"));
    }
    const double log_base = base == -1 ? 1 : std::log(base);
    slope = log_base * scale;
    offset = log_base * shift;
  }
  CREMA_HOST_DEVICE bool reads_output() const { return true; }

  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    return std::exp(T(slope) * x + T(offset));
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T y, T dy) const {
    return dy * y * T(slope);
  }

  double slope = 1;  // y = exp(slope * x + offset)
  double offset = 0;
};

// A template parameter, since compilers do not vectorize a loop that contains a branch.
template <bool kTanh>
struct GeluFormula : Grains<kCostlyGrain> {
  static constexpr double kInverseRoot2 = 1 / std::numbers::sqrt2;
  static constexpr double kDensityAt0 = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  static constexpr double kC = std::numbers::inv_sqrtpi * std::numbers::sqrt2;
  static constexpr double kA = 0.044715;

  explicit GeluFormula(const Layer&) {}
  CREMA_HOST_DEVICE bool reads_output() const { return false; }
  FusedActivation fused() const {
    return {kTanh ? FusedActivation::Kind::kGeluTanh : FusedActivation::Kind::kGelu};
  }

  // Returns 2 * P(x) - 1, approximated.
  template <typename T>
  CREMA_HOST_DEVICE static T Tanh(T x) {
    return FastTanh(T(kC) * x * (T(1) + T(kA) * x * x));
  }
  template <typename T>
  CREMA_HOST_DEVICE static T Distribution(T x) {
    return T(0.5) * FastErfc(-x * T(kInverseRoot2));
  }

  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    return x * (kTanh ? T(0.5) * (T(1) + Tanh(x)) : Distribution(x));
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T x, T dy) const {
    if constexpr (!kTanh) {
      return dy * (Distribution(x) + x * T(kDensityAt0) * FastExp(T(-0.5) * x * x));
    } else {
      const T t = Tanh(x);
      const T slope = T(kC) * (T(1) + T(3 * kA) * x * x);
      return dy * T(0.5) * (T(1) + t + x * (T(1) - t * t) * slope);
    }
  }
};

struct HardSigmoidFormula : Grains<kCheapGrain> {
  explicit HardSigmoidFormula(const Layer& layer)
      : alpha(FiniteNumber(layer, layer.param().hard_sigmoid_param().alpha(),
                           "hard_sigmoid_param.alpha")),
        beta(FiniteNumber(layer, layer.param().hard_sigmoid_param().beta(),
                          "hard_sigmoid_param.beta")) {}
  CREMA_HOST_DEVICE bool reads_output() const { return true; }

  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    return std::min(std::max(T(alpha) * x + T(beta), T(0)), T(1));
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T y, T dy) const {
    return y > 0 && y < 1 ? T(alpha) * dy : T(0);
  }

  float alpha;
  float beta;
};

struct HardSwishFormula : HardSigmoidFormula {
  using HardSigmoidFormula::HardSigmoidFormula;
  CREMA_HOST_DEVICE bool reads_output() const { return false; }
  FusedActivation fused() const {
    // 1/6 as the schema and ONNX files round it.
    const bool standard = std::abs(alpha - 1.0F / 6) < 1e-7F && beta == 0.5F;
    return {standard ? FusedActivation::Kind::kHardSwish : FusedActivation::Kind::kNone};
  }

  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    return x * HardSigmoidFormula::Value(x);
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T x, T dy) const {
    const T u = HardSigmoidFormula::Value(x);
    return dy * (u > 0 && u < 1 ? T(alpha) * x + u : u);
  }
};

struct LogFormula : Grains<kCostlyGrain, kCheapGrain> {
  explicit LogFormula(const Layer& layer)
      : scale(FiniteNumber(layer, layer.param().log_param().scale(), "log_param.scale")),
        shift(FiniteNumber(layer, layer.param().log_param().shift(), "log_param.shift")) {
    const double base = FiniteNumber(layer, layer.param().log_param().base(), "log_param.base");
    if (!(base > 0 || base == -1) || base == 1) {
      FailField(layer, "log_param.base",
                StrCat("base is ", base, ", expected more than 0 and not 1, or -1 for e"));
    }
    factor = base == -1 ? 1 : 1 / std::log(base);
  }
  CREMA_HOST_DEVICE bool reads_output() const { return false; }

  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    return T(factor) * std::log(T(shift) + T(scale) * x);
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T x, T dy) const {
    return dy * (T(factor) * T(scale)) / (T(shift) + T(scale) * x);
  }

  float scale;
  float shift;
  double factor = 1;  // 1 / log(base)
};

struct MishFormula : Grains<kCostlyGrain> {
  explicit MishFormula(const Layer&) {}
  CREMA_HOST_DEVICE bool reads_output() const { return false; }
  FusedActivation fused() const { return {FusedActivation::Kind::kMish}; }

  // Returns exp(min(x, 20)). From x = 20 on the tanh is 1 in both precisions, and squares of larger
  // exponentials would overflow.
  template <typename T>
  CREMA_HOST_DEVICE static T BoundedExp(T x) {
    return std::exp(std::min(x, T(20)));
  }

  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    const T e = BoundedExp(x);
    const T n = e * (e + T(2));
    return x * (n / (n + T(2)));
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T x, T dy) const {
    const T e = BoundedExp(x);
    const T n = e * (e + T(2));
    const T d = n + T(2);
    return dy * (n / d + x * (T(4) * ((n + T(1)) / d) / d) * (e / (T(1) + e)));
  }
};

struct ReluFormula : Grains<kCheapGrain> {
  explicit ReluFormula(const Layer& layer)
      : slope(FiniteNumber(layer, layer.param().relu_param().negative_slope(),
                           "relu_param.negative_slope")) {}
  CREMA_HOST_DEVICE bool reads_output() const { return slope >= 0; }

  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    ApplyRelu(T(slope), &x);
    return x;
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T sign, T dy) const {
    MaskByRelu(T(slope), sign, &dy);
    return dy;
  }

  float slope;
};

struct Relu6Formula : Grains<kCheapGrain> {
  explicit Relu6Formula(const Layer& layer)
      : slope(FiniteNumber(layer, layer.param().relu6_param().negative_slope(),
                           "relu6_param.negative_slope")) {}
  CREMA_HOST_DEVICE bool reads_output() const { return slope >= 0; }
  FusedActivation fused() const {
    return slope == 0 ? FusedActivation{FusedActivation::Kind::kClip, 0, 6} : FusedActivation{};
  }

  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    T leaky = x;
    ApplyRelu(T(slope), &leaky);
    return x > 0 ? std::min(x, T(6)) : leaky;
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T x_or_y, T dy) const {
    if (x_or_y >= 6) return T(0);
    MaskByRelu(T(slope), x_or_y, &dy);
    return dy;
  }

  float slope;
};

struct SigmoidFormula : Grains<kCostlyGrain, kCheapGrain> {
  explicit SigmoidFormula(const Layer&) {}
  CREMA_HOST_DEVICE bool reads_output() const { return true; }

  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    return FastSigmoid(x);
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T y, T dy) const {
    return dy * (y * (T(1) - y));
  }
};

struct SwishFormula : Grains<kCostlyGrain> {
  explicit SwishFormula(const Layer& layer)
      : beta(FiniteNumber(layer, layer.param().swish_param().beta(), "swish_param.beta")) {}
  CREMA_HOST_DEVICE bool reads_output() const { return false; }

  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    return x / (T(1) + FastExp(-T(beta) * x));
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T x, T dy) const {
    const T s = T(1) / (T(1) + FastExp(-T(beta) * x));
    return dy * (s + T(beta) * x * s * (T(1) - s));
  }

  float beta = 1;

 protected:
  SwishFormula() = default;
};

struct SiluFormula : SwishFormula {
  explicit SiluFormula(const Layer&) {}
};

struct TanHFormula : Grains<kCostlyGrain, kCheapGrain> {
  explicit TanHFormula(const Layer&) {}
  CREMA_HOST_DEVICE bool reads_output() const { return true; }
  FusedActivation fused() const { return {FusedActivation::Kind::kTanH}; }

  template <typename T>
  CREMA_HOST_DEVICE T Value(T x) const {
    return FastTanh(x);
  }
  template <typename T>
  CREMA_HOST_DEVICE T Gradient(T y, T dy) const {
    return dy * (T(1) - y * y);
  }
};

// Returns base ^ power, for Power.
template <typename T>
CREMA_HOST_DEVICE inline T RaisedTo(T base, T power) {
  return power == 2 ? base * base : std::pow(base, power);
}

}  // namespace crema
