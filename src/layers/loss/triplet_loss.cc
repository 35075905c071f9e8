// TripletLoss (Schroff, Kalenichenko, Philbin: FaceNet, 2015) of anchors a, positives p and
// negatives n: D is the squared Euclidean distance, or the distance with `euclidean`;
//   loss = sum max(0, D(a, p) - D(a, n) + margin) / N
// With u = (a - p) / |a - p| and v = (a - n) / |a - n| (squared: 2 (a - p) and 2 (a - n)), a
// triplet with a positive cost has da = (u - v) dloss / N, dp = -u dloss / N, dn = v dloss / N.
#include "layers/loss/feature_loss.h"
#include "layers/loss/loss_type.h"

namespace crema {
namespace {

std::vector<LayerSample> Samples() {
  const SampleInput any{.shape = {6, 4}};
  const SampleInput far{.shape = {6, 2, 2}, .low = 4, .high = 5};
  return {
      {.name = "triplets",
       .prototxt = "triplet_loss_param { margin: 1 }",
       .inputs = {any, any, any}},
      {.name = "all_active",
       .prototxt = "triplet_loss_param { margin: 40 }",
       .inputs = {any, any, any}},
      {.name = "none_active", .inputs = {any, any, far}},
      {.name = "euclidean",
       .prototxt = "triplet_loss_param { margin: 0.5 euclidean: true }",
       .inputs = {any, any, any}},
      {.name = "euclidean_all_active",
       .prototxt = "triplet_loss_param { margin: 20 euclidean: true }",
       .inputs = {any, far, any}},
      {.name = "large",
       .prototxt = "triplet_loss_param { margin: 30 }",
       .inputs = {{.shape = {1201, 17}}, {.shape = {1201, 17}}, {.shape = {1201, 17}}}},
      {.name = "empty_batch", .inputs = {{.shape = {0, 3}}, {.shape = {0, 3}}, {.shape = {0, 3}}}},
  };
}

}  // namespace

void RegisterTripletLoss(Registry& registry) {
  LayerType type = LossType<FeatureLoss<TripletRule>>("TripletLoss");
  type.summary =
      "Pulls a feature nearer to one of its own class than to one of another (FaceNet, 2015).";
  type.formula =
      "loss = sum_n max(0, D(a_n, p_n) - D(a_n, q_n) + margin) / N; D(x, y) = |x - y|^2, or |x - "
      "y| "
      "with euclidean";
  type.input_docs = {"anchors a: N items on axis 0, all values after it are the feature",
                     "positives p: as many items of the kind of the anchors",
                     "negatives q: as many items of other kinds"};
  type.differences = {
      "Forks differ in a factor; this is FaceNet's sum divided by the batch size. Some have a "
      "factor of one half: set loss_weight: 0.5."};
  type.origin = "community";
  type.param_fields = {"triplet_loss_param"};
  type.inputs = {3, 3};
  type.samples = Samples();
  type.bad_samples = {
      {.input_shapes = {{4, 3}, {4, 3}, {4, 2}}, .expect = kUnequalItems},
      {.input_shapes = {{4, 3}, {3, 3}, {4, 3}}, .expect = kUnequalItems},
      {.prototxt = "triplet_loss_param { margin: -1 }",
       .input_shapes = {{4, 3}, {4, 3}, {4, 3}},
       .expect = "margin is -1, expected 0 or more"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
