// EuclideanLoss, L1Loss and SmoothL1Loss: losses of the differences of pairs of values, by PairRule
// (element_rules.h). SmoothL1Loss is quadratic near 0 and linear beyond. SSD's layer has sigma
// 1 and up to three bottoms; Fast R-CNN's has smooth_l1_loss_param and up to four.
#include "layers/loss/element_loss.h"
#include "layers/loss/loss_type.h"

namespace crema {
namespace {

std::vector<LayerSample> SmoothSamples() {
  const SampleInput a{.shape = {4, 6}, .low = -2, .high = 2};
  const SampleInput b{.shape = {4, 6, 1, 1}};
  const SampleInput mask = Labels({4, 6}, 1);
  const SampleInput weight{.shape = {4, 6}, .low = 0, .high = 2};
  return {
      {.name = "plain", .inputs = {a, b}},
      {.name = "mask", .inputs = {a, b, mask}},
      {.name = "inside_weights", .inputs = {a, b, weight}},
      {.name = "inside_and_outside_weights",
       .prototxt = "smooth_l1_loss_param { sigma: 3 }",
       .inputs = {a, b, mask, weight}},
      {.name = "wide",
       .prototxt = "smooth_l1_loss_param { sigma: 0.5 }",
       .inputs = {a, b, weight, weight}},
      {.name = "large",
       .inputs = {{.shape = {3, 33301}}, {.shape = {3, 33301}, .low = -2, .high = 2}}},
      {.name = "empty_batch", .inputs = {{.shape = {0, 3}}, {.shape = {0, 3}}}},
  };
}

}  // namespace

void RegisterEuclideanLoss(Registry& registry) {
  LayerType type = LossType<ElementLoss<PairRule<HalfSquare>>>("EuclideanLoss");
  type.summary = "Half the mean squared distance of two blobs.";
  type.formula = "loss = sum (a - b)^2 / (2 N)";
  type.input_docs = {"a: N items on axis 0, any axes after it",
                     "b: as many items with as many values each, in any shape; may get a gradient "
                     "too"};
  type.samples = {
      {.name = "rows", .inputs = {{.shape = {4, 3}}, {.shape = {4, 3}}}},
      {.name = "other_shape", .inputs = {{.shape = {2, 3, 4}}, {.shape = {2, 12, 1, 1}}}},
      {.name = "one_value_each", .inputs = {{.shape = {5}}, {.shape = {5, 1}}}},
      {.name = "batch_1", .inputs = {{.shape = {1, 7}}, {.shape = {1, 7}}}},
      {.name = "large", .inputs = {{.shape = {3, 33301}}, {.shape = {3, 33301}}}},
      {.name = "empty_batch", .inputs = {{.shape = {0, 3}}, {.shape = {0, 3}}}},
  };
  type.bad_samples = {
      {.input_shapes = {{4, 3}, {3, 4}}, .expect = kUnequalItems},
      {.input_shapes = {{4, 3}, {4, 2}}, .expect = kUnequalItems},
      {.input_shapes = {{}, {1}}, .expect = kUnequalItems},
      {.input_shapes = {{1}, {}}, .expect = kUnequalItems},
  };
  registry.Add(std::move(type));
}

void RegisterL1Loss(Registry& registry) {
  LayerType type = LossType<ElementLoss<PairRule<Magnitude>>>("L1Loss");
  type.summary = "Sum of magnitudes of the differences of two blobs, for each item.";
  type.formula = "loss = sum |a - b| / N";
  type.input_docs = {"a: N items on axis 0, any axes after it",
                     "b: as many items with as many values each, in any shape; may get a gradient "
                     "too"};
  type.origin = "NVCaffe";
  const auto between = [](std::vector<int64_t> shape, double low, double high) {
    return SampleInput{.shape = std::move(shape), .low = low, .high = high};
  };
  type.samples = {
      {.name = "above", .inputs = {between({4, 3}, 1.1, 2), between({4, 3}, -1, 1)}},
      {.name = "below", .inputs = {between({2, 3, 2}, -1, 1), between({2, 6}, 1.1, 2)}},
      {.name = "both_sides",
       .inputs = {{.shape = {3, 5}, .has_kink = true}, between({3, 5}, -0.04, 0.04)}},
      {.name = "large", .inputs = {between({3, 33301}, 1.1, 2), between({3, 33301}, -1, 1)}},
      {.name = "empty_batch", .inputs = {{.shape = {0, 3}}, {.shape = {0, 3}}}},
  };
  type.bad_samples = {
      {.input_shapes = {{4, 3}, {3, 4}}, .expect = kUnequalItems},
      {.input_shapes = {{}, {}}, .expect = kUnequalItems},
  };
  registry.Add(std::move(type));
}

void RegisterSmoothL1Loss(Registry& registry) {
  LayerType type = LossType<ElementLoss<PairRule<Huber>>>("SmoothL1Loss");
  type.summary = "Huber loss of the differences of two blobs, as box regression uses it.";
  type.formula =
      "d = inside * (a - b); loss = sum outside * f(d) / N; f(d) = (sigma d)^2 / 2 where |d| < 1 / "
      "sigma^2, else |d| - 1 / (2 sigma^2)";
  type.input_docs = {"a: N items on axis 0, any axes after it",
                     "b: as many items with as many values each; may get a gradient too",
                     "inside weights: one for each value; optional; no gradient",
                     "outside weights: one for each value; optional; no gradient"};
  type.differences = {
      "The gradient is multiplied by the inside weights, as the formula says; SSD's is not, which "
      "is the same for weights of 0 and 1.",
      "This is both SSD's layer and that of Fast R-CNN: sigma and a fourth bottom are optional."};
  type.origin = "SSD";
  type.param_fields = {"smooth_l1_loss_param"};
  type.inputs = {2, 4};
  type.samples = SmoothSamples();
  type.bad_samples = {
      {.input_shapes = {{4, 3}, {4, 2}}, .expect = kUnequalItems},
      {.input_shapes = {{4, 3}, {4, 3}, {4}}, .expect = kUnequalItems},
      {.input_shapes = {{4, 3}, {4, 3}, {4, 3}, {3}}, .expect = kUnequalItems},
      {.prototxt = "smooth_l1_loss_param { sigma: 0 }",
       .input_shapes = {{4, 3}, {4, 3}},
       .expect = "sigma is 0, expected more than 0"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
