// HardSigmoid: y = min(max(alpha * x + beta, 0), 1), element by element; HSigmoid is another name.
// dx = alpha * dy where 0 < y < 1, else 0: backward reads y alone, so the layer may run in place.
// HardSwish: y = x * u, u = min(max(alpha * x + beta, 0), 1); HSwish is another name. dx = dy *
// (alpha * x + u) where 0 < u < 1, dy * u elsewhere; backward reads x.
#include "layers/activation/elementwise.h"
#include "layers/activation/part_blocks.h"

namespace crema {
namespace {

// `own` are the samples of the layer alone.
template <typename Formula>
LayerType HardType(std::string name, std::string summary, std::string formula,
                   const std::vector<LayerSample>& own) {
  auto type = ElementwiseType<Formula>(std::move(name), std::move(summary), std::move(formula));
  type.origin = "MobileNetV3 ports";
  type.param_fields = {"hard_sigmoid_param"};
  const SampleInput below{
      .shape = {2, 3, 4, 5}, .low = -5, .high = 2, .has_kink = true, .kink = -3};
  const SampleInput above{.shape = {2, 31}, .low = -2, .high = 5, .has_kink = true, .kink = 3};
  type.samples = {
      {.name = "below", .prototxt = "", .inputs = {below}},
      {.name = "above", .prototxt = "", .inputs = {above}},
  };
  type.samples.insert(type.samples.end(), own.begin(), own.end());
  type.samples.push_back({.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}});
  type.bad_samples = {
      {"hard_sigmoid_param { alpha: nan }", {{2}}, "alpha is nan, expected a finite number"},
      {"hard_sigmoid_param { beta: inf }", {{2}}, "beta is inf, expected a finite number"},
  };
  return type;
}

}  // namespace

void RegisterHardSigmoid(Registry& registry) {
  const SampleInput keras{.shape = {2, 31}, .low = -4, .high = 2, .has_kink = true, .kink = -2.5};
  registry.Add(HardType<HardSigmoidFormula>(
      "HardSigmoid", "Sigmoid of three linear pieces, as in MobileNetV3.",
      "y = min(max(alpha * x + beta, 0), 1)",
      {{.name = "keras",
        .prototxt = "hard_sigmoid_param { alpha: 0.2 beta: 0.5 }",
        .inputs = {keras}},
       {.name = "falling",
        .prototxt = "hard_sigmoid_param { alpha: -0.5 beta: 0.25 }",
        .inputs = {{.shape = {2, 31}, .has_kink = true, .kink = 0.5}}}}));
  registry.AddAlias("HSigmoid", "HardSigmoid");
}

void RegisterHardSwish(Registry& registry) {
  auto type = HardType<HardSwishFormula>(
      "HardSwish", "Swish with the hard sigmoid as gate, as in MobileNetV3.",
      "y = x * min(max(alpha * x + beta, 0), 1)",
      {{.name = "gate",
        .prototxt = "hard_sigmoid_param { alpha: 0.5 beta: 0.25 }",
        .inputs = {{.shape = {2, 31}, .has_kink = true, .kink = -0.5}}}});
  type.implementations = PartBlockImplementations();
  registry.Add(std::move(type));
  registry.AddAlias("HSwish", "HardSwish");
}

}  // namespace crema
