// Unary: y = f(x), element by element (unary_formula.h). Steps have the gradient 0; operations that
// give truth values have none.
#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "layers/activation/elementwise.h"
#include "layers/activation/unary_formula.h"

namespace crema {
namespace {

constexpr int kOperations = UnaryParameter::Operation_ARRAYSIZE;

template <int kOperation, typename T>
CREMA_MULTIVERSION void ForwardLoop(Compute<T> alpha, Compute<T> beta, const T* x, T* y,
                                    int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    y[i] = UnaryValue(UnaryOperation{kOperation}, alpha, beta, Compute<T>{x[i]});
  }
}

template <int kOperation, typename T>
CREMA_MULTIVERSION void BackwardLoop(Compute<T> alpha, Compute<T> beta, const T* x_or_y,
                                     const T* dy, T* dx, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const Compute<T> slope =
        UnarySlope(UnaryOperation{kOperation}, alpha, beta, Compute<T>{x_or_y[i]});
    dx[i] = slope * Compute<T>{dy[i]};
  }
}

template <typename T, int... k>
auto ForwardLoopOf(int operation, std::integer_sequence<int, k...>) {
  using Function = void (*)(Compute<T>, Compute<T>, const T*, T*, int64_t);
  const std::array<Function, sizeof...(k)> all{ForwardLoop<k, T>...};
  return all[static_cast<size_t>(operation)];
}

template <typename T, int... k>
auto BackwardLoopOf(int operation, std::integer_sequence<int, k...>) {
  using Function = void (*)(Compute<T>, Compute<T>, const T*, const T*, T*, int64_t);
  const std::array<Function, sizeof...(k)> all{BackwardLoop<k, T>...};
  return all[static_cast<size_t>(operation)];
}

struct Defaults {
  bool has_alpha = false;
  float alpha = 0;
  bool has_beta = false;
  float beta = 0;
};

Defaults DefaultsOf(UnaryOperation operation) {
  switch (operation) {
    case UnaryParameter::SELU:
      return {true, 1.6732632F, true, 1.0507010F};
    case UnaryParameter::CELU:
    case UnaryParameter::THRESHOLDED_RELU:
      return {true, 1};
    case UnaryParameter::SHRINK:
      return {true, 0.5, true, 0};
    default:
      return {};
  }
}

}  // namespace

// The loops of Elementwise<UnaryFormula>: one for each operation.
template <typename T>
static void ElementwiseForward(UnaryFormula formula, const T* x, T* y, int64_t begin, int64_t end) {
  constexpr auto kAll = std::make_integer_sequence<int, kOperations>();
  ForwardLoopOf<T>(formula.operation, kAll)(formula.alpha, formula.beta, x + begin, y + begin,
                                            end - begin);
}

template <typename T>
static void ElementwiseBackward(UnaryFormula formula, const T* x_or_y, const T* dy, T* dx,
                                int64_t begin, int64_t end) {
  constexpr auto kAll = std::make_integer_sequence<int, kOperations>();
  BackwardLoopOf<T>(formula.operation, kAll)(formula.alpha, formula.beta, x_or_y + begin,
                                             dy + begin, dx + begin, end - begin);
}

UnaryFormula::UnaryFormula(const Layer& layer)
    : operation(layer.param().unary_param().operation()) {
  const UnaryParameter& param = layer.param().unary_param();
  if (!param.has_operation()) {
    FailField(layer, "unary_param.operation", "operation is missing; it has no default");
  }
  const Defaults defaults = DefaultsOf(operation);
  const auto number = [&](const std::string& name, bool given, float value, bool has,
                          float unset) -> float {
    const std::string field = "unary_param." + name;
    if (!given) return unset;
    if (!has) {
      FailField(layer, field,
                StrCat("operation ", UnaryParameter::Operation_Name(operation), " has no ", name,
                       "; remove it"));
    }
    return FiniteNumber(layer, value, field);
  };
  alpha = number("alpha", param.has_alpha(), param.alpha(), defaults.has_alpha, defaults.alpha);
  beta = number("beta", param.has_beta(), param.beta(), defaults.has_beta, defaults.beta);
  if (operation == UnaryParameter::CELU && alpha == 0) {
    FailField(layer, "unary_param.alpha", "alpha is 0; CELU divides by it");
  }
}

namespace {

LayerSample Sample(const std::string& name, const std::string& fields, SampleInput input) {
  return {.name = name, .prototxt = "unary_param { " + fields + " }", .inputs = {std::move(input)}};
}

std::vector<LayerSample> Samples() {
  std::vector<LayerSample> samples;
  const auto add = [&](const std::string& operation, double low, double high) {
    samples.push_back(Sample(operation, "operation: " + operation,
                             {.shape = {2, 3, 4, 5}, .low = low, .high = high}));
  };
  for (const char* anywhere :
       {"NEGATIVE", "SIN", "COS", "ATAN", "SINH", "COSH", "ASINH", "ERF", "SOFTPLUS"}) {
    add(anywhere, -3, 3);
  }
  for (const char* within : {"TAN", "ASIN", "ACOS", "ATANH"}) add(within, -0.9, 0.9);
  for (const char* positive : {"RECIPROCAL", "SQRT"}) add(positive, 0.3, 3);
  add("ACOSH", 1.2, 4);
  for (const char* step : {"FLOOR", "CEIL", "ROUND"}) add(step, 2.55, 2.95);
  const auto kinked = [&](const std::string& name, const std::string& fields, double kink) {
    samples.push_back(
        Sample(name, fields,
               {.shape = {2, 3, 4, 5}, .low = -2, .high = 2, .has_kink = true, .kink = kink}));
  };
  kinked("SIGN", "operation: SIGN", 0);
  kinked("SOFTSIGN", "operation: SOFTSIGN", 0);
  kinked("SELU", "operation: SELU", 0);
  kinked("selu_numbers", "operation: SELU alpha: 0.5 beta: -2", 0);
  kinked("CELU", "operation: CELU", 0);
  kinked("celu_alpha", "operation: CELU alpha: 2.5", 0);
  kinked("THRESHOLDED_RELU", "operation: THRESHOLDED_RELU", 1);
  kinked("thresholded_relu_alpha", "operation: THRESHOLDED_RELU alpha: 0.5", 0.5);
  samples.push_back(Sample("SHRINK", "operation: SHRINK beta: 0.25",
                           {.shape = {2, 3, 4}, .low = 0.55, .high = 2}));
  samples.push_back(
      Sample("shrink_below", "operation: SHRINK alpha: 1 beta: 0.5",
             {.shape = {2, 3, 4}, .low = -2, .high = 0.9, .has_kink = true, .kink = -1}));
  for (const char* truth : {"NOT", "IS_NAN", "IS_INF", "IS_POSITIVE_INF", "IS_NEGATIVE_INF"}) {
    samples.push_back(Sample(truth, std::string("operation: ") + truth,
                             {.shape = {2, 3, 4}, .low = 0, .high = 1, .integer = true}));
    samples.back().gradient = false;
  }
  samples.push_back(Sample("large", "operation: SQRT", {.shape = {5, 9001}, .low = 0.5}));
  samples.push_back(Sample("scalar", "operation: SIN", {.shape = {}}));
  samples.push_back(Sample("empty_batch", "operation: SIN", {.shape = {0, 3}}));
  return samples;
}

}  // namespace

void RegisterUnary(Registry& registry) {
  auto type = ElementwiseType<UnaryFormula>(
      "Unary", "A function of each element: roundings, trigonometric functions and the like.",
      "y = f(x)");
  type.traits.fits_16_bits = false;
  type.origin = "Crema";
  type.input_docs = {"x: any shape; NOT and the IS operations give it no gradient"};
  type.param_fields = {"unary_param"};
  type.samples = Samples();
  type.bad_samples = {
      {"", {{2}}, "operation is missing"},
      {"unary_param { operation: SIN alpha: 1 }", {{2}}, "operation SIN has no alpha"},
      {"unary_param { operation: CELU beta: 1 }", {{2}}, "operation CELU has no beta"},
      {"unary_param { operation: CELU alpha: 0 }", {{2}}, "alpha is 0"},
      {"unary_param { operation: SELU beta: inf }", {{2}}, "beta is inf"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
