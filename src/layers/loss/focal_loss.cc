// FocalLoss (Lin, Goyal, Girshick, He, Dollar: Focal Loss for Dense Object Detection, 2017) in its
// multi-class form: p = softmax(scores), q = max(p[label], FLT_MIN);
//   loss = -alpha sum_i (1 - q_i)^gamma ln q_i / normalizer, over labels that are not ignored
//   dscores_ic = g_i ([c == label_i] - p_ic) * dloss / normalizer, with
//   g = q * d cost / d q = -alpha (1 - q)^gamma (1 - gamma q ln q / (1 - q)).
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <memory>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/loss/focal_rule.h"
#include "layers/loss/item_batch.h"
#include "layers/loss/softmax_loss.h"
#include "math/reduce.h"

namespace crema {
namespace {

class FocalLoss final : public SoftmaxLoss {
 public:
  explicit FocalLoss(const LayerParameter& param)
      : SoftmaxLoss(param, param.focal_loss_param().axis(), "focal_loss_param.axis"),
        gamma_(param.focal_loss_param().gamma()),
        alpha_(param.focal_loss_param().alpha()) {
    CheckParameter("gamma", gamma_);
    CheckParameter("alpha", alpha_);
  }

 private:
  void CheckParameter(const char* name, double value) const {
    if (value >= 0 && std::isfinite(value)) return;
    FailField(*this, StrCat("focal_loss_param.", name),
              StrCat(name, " is ", value, ", expected 0 or more"));
  }

  double Sum(const SoftmaxBatch<float>& batch) const override { return SumOf(batch); }
  double Sum(const SoftmaxBatch<double>& batch) const override { return SumOf(batch); }
  void Gradient(const SoftmaxBatch<float>& batch, double scale, float* dx) const override {
    WriteGradient(batch, scale, dx);
  }
  void Gradient(const SoftmaxBatch<double>& batch, double scale, double* dx) const override {
    WriteGradient(batch, scale, dx);
  }

  // Returns q of one position; NaN stays NaN.
  template <typename T>
  static double OwnProbability(const SoftmaxBatch<T>& batch, int64_t position) {
    const T p = batch.prob[batch.First(position) + batch.Label(position) * batch.extent.inner];
    return static_cast<double>(std::max(p, T(FLT_MIN)));
  }

  double Cost(double q) const { return FocalCost(alpha_, gamma_, q); }
  double Pull(double q) const { return FocalPull(alpha_, gamma_, q); }

  template <typename T>
  double SumOf(const SoftmaxBatch<T>& batch) const {
    return OrderedSum(batch.threads, batch.positions(), ItemGrain(8),
                      [&](int64_t begin, int64_t end) {
                        double sum = 0;
                        for (int64_t at = begin; at < end; ++at) {
                          if (!batch.Ignores(at)) sum += Cost(OwnProbability(batch, at));
                        }
                        return sum;
                      });
  }

  template <typename T>
  void WriteGradient(const SoftmaxBatch<T>& batch, double scale, T* dx) const {
    const SoftmaxSize& extent = batch.extent;
    ParallelFor(batch.threads, batch.positions(), ItemGrain(extent.classes),
                [&](int64_t begin, int64_t end, int) {
                  for (int64_t at = begin; at < end; ++at) {
                    const bool ignored = batch.Ignores(at);
                    const int64_t label = ignored ? -1 : batch.Label(at);
                    const double pull = ignored ? 0 : scale * Pull(OwnProbability(batch, at));
                    for (int64_t c = 0; c < extent.classes; ++c) {
                      const int64_t i = batch.First(at) + c * extent.inner;
                      const double p = static_cast<double>(batch.prob[i]);
                      dx[i] = ignored ? T(0) : static_cast<T>(pull * ((c == label ? 1 : 0) - p));
                    }
                  }
                });
  }

  const double gamma_;
  const double alpha_;
};

std::vector<LayerSample> Samples() {
  const SampleInput rows{.shape = {5, 4}, .low = -3, .high = 3};
  const SampleInput labels{.shape = {5}, .low = 0, .high = 3, .integer = true};
  const SampleInput maps{.shape = {2, 4, 3, 5}};
  const SampleInput map_labels{.shape = {2, 3, 5}, .low = 0, .high = 3, .integer = true};
  return {
      {.name = "rows",
       .prototxt = "focal_loss_param { gamma: 2 alpha: 0.25 }",
       .inputs = {rows, labels}},
      {.name = "gamma_0_is_cross_entropy",
       .prototxt = "focal_loss_param { gamma: 0 alpha: 1 }",
       .inputs = {rows, labels}},
      {.name = "gamma_below_1",
       .prototxt = "focal_loss_param { gamma: 0.5 alpha: 2 }",
       .inputs = {rows, labels}},
      {.name = "maps_ignore",
       .prototxt =
           "focal_loss_param { gamma: 3 } loss_param { ignore_label: 1 normalization: FULL }",
       .inputs = {maps, map_labels}},
      {.name = "last_axis",
       .prototxt = "focal_loss_param { axis: -1 } loss_param { normalization: BATCH_SIZE }",
       .inputs = {{.shape = {2, 3, 4}}, {.shape = {2, 3}, .low = 0, .high = 3, .integer = true}},
       .outputs = 2},
      {.name = "large",
       .prototxt = "",
       .inputs = {{.shape = {4001, 5}}, {.shape = {4001}, .low = 0, .high = 4, .integer = true}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}, {.shape = {0}}}},
  };
}

}  // namespace

void RegisterFocalLoss(Registry& registry) {
  LayerType type;
  type.name = "FocalLoss";
  type.category = "loss";
  type.summary =
      "Cross entropy of the softmax of scores that fades where the label is already probable (Lin "
      "et al. 2017).";
  type.formula =
      "q_i = softmax(scores_i)[label_i]; loss = -alpha sum_i (1 - q_i)^gamma ln q_i / normalizer "
      "over positions i that are not ignored";
  type.input_docs = {
      "scores: the K classes on axis focal_loss_param.axis, any axes before and after it",
      "labels: one for each position, in any shape with the same axis 0; whole numbers 0..K-1, or "
      "ignore_label; no gradient"};
  type.output_docs = {"loss: scalar",
                      "probabilities: softmax of the scores, in their shape; optional"};
  type.differences = {
      "The paper's detector has a sigmoid for each class and divides by the anchors that hold an "
      "object; here classes exclude each other, as background and objects do, and loss_param says "
      "what divides."};
  type.origin = "community";
  type.param_fields = {"focal_loss_param", "loss_param"};
  type.unread_fields = {"loss_param.class_weight", "loss_param.class_weighting",
                        "loss_param.class_weighting_mode", "loss_param.weight_by_label_freqs",
                        "loss_param.label_smoothing"};
  type.inputs = {2, 2};
  type.outputs = {1, 2};
  type.default_loss_weight = 1;
  type.make = [](const LayerParameter& p) { return std::make_unique<const FocalLoss>(p); };
  type.samples = Samples();
  type.bad_samples = {
      {.prototxt = "", .input_shapes = {{4, 3}, {5}}, .expect = "need 4 labels"},
      {.prototxt = "focal_loss_param { gamma: -1 }",
       .input_shapes = {{4, 3}, {4}},
       .expect = "gamma is -1, expected 0 or more"},
      {.prototxt = "focal_loss_param { alpha: -0.5 }",
       .input_shapes = {{4, 3}, {4}},
       .expect = "alpha is -0.5, expected 0 or more"},
      {.prototxt = "focal_loss_param { axis: 2 }",
       .input_shapes = {{4, 3}, {4}},
       .expect = "axis 2 is outside"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
