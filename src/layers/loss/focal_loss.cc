// FocalLoss (Lin, Goyal, Girshick, He, Dollar: Focal Loss for Dense Object Detection, 2017) in its
// multi-class form: p = softmax(scores), q = max(p[label], FLT_MIN);
//   loss = -alpha sum_i (1 - q_i)^gamma ln q_i / normalizer, over labels that are not ignored
//   dscores_ic = g_i ([c == label_i] - p_ic) * dloss / normalizer, with
//   g = q * d cost / d q = -alpha (1 - q)^gamma (1 - gamma q ln q / (1 - q)).
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <memory>

#include "core/strings.h"
#include "crema.pb.h"
#include "layers/loss/item_batch.h"
#include "layers/loss/item_loops.h"
#include "layers/loss/loss_type.h"
#include "layers/loss/softmax_loss.h"
#include "layers/loss/softmax_rules.h"

namespace crema {
namespace {

class FocalLoss final : public SoftmaxLossOf<FocalLoss> {
 public:
  explicit FocalLoss(const LayerParameter& param)
      : SoftmaxLossOf(param, param.focal_loss_param().axis(), "focal_loss_param.axis"),
        gamma_(param.focal_loss_param().gamma()),
        alpha_(param.focal_loss_param().alpha()) {
    CheckParameter("gamma", gamma_);
    CheckParameter("alpha", alpha_);
  }

  template <typename T>
  double SumOf(const SoftmaxBatch<T>& batch) const {
    return SumItems(batch.threads, batch.positions(), ItemGrain(8), [&](int64_t at, double sum) {
      return batch.Ignores(at) ? sum : sum + FocalCost(alpha_, gamma_, OwnProbability(batch, at));
    });
  }

  template <typename T>
  void WriteGradient(const SoftmaxBatch<T>& batch, double scale, T* dx) const {
    const SoftmaxSize& sizes = batch.sizes;
    ForItems(batch.threads, batch.positions(), ItemGrain(sizes.classes), [&](int64_t at) {
      const bool ignored = batch.Ignores(at);
      const int64_t label = ignored ? -1 : batch.Label(at);
      const double pull =
          ignored ? 0 : scale * FocalPull(alpha_, gamma_, OwnProbability(batch, at));
      for (int64_t c = 0; c < sizes.classes; ++c) {
        const int64_t i = batch.First(at) + c * sizes.inner;
        const double p = static_cast<double>(batch.prob[i]);
        dx[i] = ignored ? T(0) : static_cast<T>(pull * ((c == label ? 1 : 0) - p));
      }
    });
  }

 private:
  void CheckParameter(const char* name, double value) const {
    if (value >= 0 && std::isfinite(value)) return;
    FailField(*this, StrCat("focal_loss_param.", name),
              StrCat(name, " is ", value, ", expected 0 or more"));
  }

  // Returns q of one position; NaN stays NaN.
  template <typename T>
  static double OwnProbability(const SoftmaxBatch<T>& batch, int64_t position) {
    const T p = batch.prob[batch.First(position) + batch.Label(position) * batch.sizes.inner];
    return static_cast<double>(std::max(p, T(FLT_MIN)));
  }

  const double gamma_;
  const double alpha_;
};

std::vector<LayerSample> Samples() {
  const SampleInput rows{.shape = {5, 4}, .low = -3, .high = 3};
  const SampleInput labels = Labels({5}, 3);
  const SampleInput maps{.shape = {2, 4, 3, 5}};
  const SampleInput map_labels = Labels({2, 3, 5}, 3);
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
       .inputs = {{.shape = {2, 3, 4}}, Labels({2, 3}, 3)},
       .outputs = 2},
      {.name = "large", .inputs = {{.shape = {4001, 5}}, Labels({4001}, 4)}},
      {.name = "empty_batch", .inputs = {{.shape = {0, 3}}, {.shape = {0}}}},
  };
}

}  // namespace

void RegisterFocalLoss(Registry& registry) {
  LayerType type = SoftmaxLossType<FocalLoss>("FocalLoss", "focal_loss_param");
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
  type.differences = {
      "The paper's detector has a sigmoid for each class and divides by the anchors that hold an "
      "object; here classes exclude each other, as background and objects do, and loss_param sets "
      "the divisor."};
  type.origin = "community";
  type.unread_fields = FieldsOfSoftmaxWithLoss();
  type.samples = Samples();
  type.bad_samples = {
      {.input_shapes = {{4, 3}, {5}}, .expect = "need 4 labels"},
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
