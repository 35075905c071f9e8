// Mish: y = x * tanh(log(1 + exp(x))), element by element.
// With e = exp(x) and n = e * (e + 2) the tanh is t = n / (n + 2), without a logarithm, and
// dx = dy * (t + x * (1 - t^2) * sigmoid(x)), 1 - t^2 = 4 * (n + 1) / (n + 2)^2.
#include <algorithm>
#include <cmath>

#include "layers/activation/elementwise.h"

namespace crema {
namespace {

struct MishFormula {
  static constexpr int64_t kForwardGrain = kCostlyGrain;
  static constexpr int64_t kBackwardGrain = kCostlyGrain;

  explicit MishFormula(const Layer&) {}
  bool reads_output() const { return false; }

  // From 20 on t is 1 in either precision, and the squares of larger powers would overflow.
  template <typename T>
  static T BoundedExp(T x) {
    return std::exp(std::min(x, T(20)));
  }

  template <typename T>
  T Value(T x) const {
    const T e = BoundedExp(x);
    const T n = e * (e + T(2));
    return x * (n / (n + T(2)));
  }
  template <typename T>
  T Gradient(T x, T dy) const {
    const T e = BoundedExp(x);
    const T n = e * (e + T(2));
    const T d = n + T(2);
    return dy * (n / d + x * (T(4) * ((n + T(1)) / d) / d) * (e / (T(1) + e)));
  }
};

}  // namespace

void RegisterMish(Registry& registry) {
  auto type =
      ElementwiseType<MishFormula>("Mish", "x gated by the tanh of its softplus, as in YOLOv4.",
                                   "y = x * tanh(log(1 + exp(x)))");
  type.origin = "YOLOv4 ports";
  type.param_fields = {"mish_param"};
  type.samples = {
      {.name = "plain", .prototxt = "", .inputs = {{.shape = {2, 3, 4, 5}, .low = -4, .high = 4}}},
      {.name = "far", .prototxt = "", .inputs = {{.shape = {2, 40}, .low = -30, .high = 30}}},
      {.name = "engine_hint",
       .prototxt = "mish_param { engine: CAFFE }",
       .inputs = {{.shape = {3, 6007}}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
