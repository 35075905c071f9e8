// GELU: y = x * P(x), P the distribution function of the standard normal, element by element.
//   NONE: P(x) = erfc(-x / sqrt(2)) / 2
//         dx = dy * (P(x) + x * p(x)), p the density
//   TANH: P(x) = (1 + t) / 2, t = tanh(c * (x + a * x^3)), c = sqrt(2 / pi), a = 0.044715
//         dx = dy * (P(x) + x * (1 - t^2) / 2 * c * (1 + 3 * a * x^2))
#include <numbers>

#include "layers/activation/elementwise.h"
#include "math/fast_exp.h"

namespace crema {
namespace {

// A template, as compilers take no loop with a choice in it many elements at a time.
template <bool kTanh>
struct GeluFormula {
  static constexpr int64_t kForwardGrain = kCostlyGrain;
  static constexpr int64_t kBackwardGrain = kCostlyGrain;
  static constexpr double kInverseRoot2 = 1 / std::numbers::sqrt2;
  static constexpr double kDensityAt0 = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  static constexpr double kC = std::numbers::inv_sqrtpi * std::numbers::sqrt2;
  static constexpr double kA = 0.044715;

  explicit GeluFormula(const Layer&) {}
  bool reads_output() const { return false; }

  // Twice P(x) - 1/2, approximated.
  template <typename T>
  static T Tanh(T x) {
    return FastTanh(T(kC) * x * (T(1) + T(kA) * x * x));
  }
  template <typename T>
  static T Distribution(T x) {
    return T(0.5) * FastErfc(-x * T(kInverseRoot2));
  }

  template <typename T>
  T Value(T x) const {
    return x * (kTanh ? T(0.5) * (T(1) + Tanh(x)) : Distribution(x));
  }
  template <typename T>
  T Gradient(T x, T dy) const {
    if constexpr (!kTanh) {
      return dy * (Distribution(x) + x * T(kDensityAt0) * FastExp(T(-0.5) * x * x));
    } else {
      const T t = Tanh(x);
      const T slope = T(kC) * (T(1) + T(3 * kA) * x * x);
      return dy * T(0.5) * (T(1) + t + x * (T(1) - t * t) * slope);
    }
  }
};

}  // namespace

void RegisterGELU(Registry& registry) {
  auto type = ElementwiseType<GeluFormula<false>>(
      "GELU", "Gaussian error linear unit, the activation of transformers.",
      "y = x * P(x), P the distribution function of the standard normal; approximation: TANH takes "
      "P(x) = (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2");
  type.origin = "Crema";
  type.param_fields = {"gelu_param"};
  type.make = [](const LayerParameter& p) -> std::unique_ptr<const Layer> {
    if (p.gelu_param().approximation() == GELUParameter::TANH) {
      return std::make_unique<const Elementwise<GeluFormula<true>>>(p);
    }
    return std::make_unique<const Elementwise<GeluFormula<false>>>(p);
  };
  const SampleInput input{.shape = {2, 3, 4, 5}, .low = -4, .high = 4};
  type.samples = {
      {.name = "exact", .prototxt = "", .inputs = {input}},
      {.name = "tanh", .prototxt = "gelu_param { approximation: TANH }", .inputs = {input}},
      {.name = "large", .prototxt = "", .inputs = {{.shape = {3, 6007}}}},
      {.name = "large_tanh",
       .prototxt = "gelu_param { approximation: TANH }",
       .inputs = {{.shape = {3, 6007}}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
