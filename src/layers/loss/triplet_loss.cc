// TripletLoss (Schroff, Kalenichenko, Philbin: FaceNet, 2015) of anchors a, positives p and
// negatives n: D is the squared Euclidean distance, or the distance with `euclidean`;
//   loss = sum max(0, D(a, p) - D(a, n) + margin) / N
// With u = (a - p) / |a - p| and v = (a - n) / |a - n| (squared: 2 (a - p) and 2 (a - n)), a
// triplet with a positive cost has da = (u - v) dloss / N, dp = -u dloss / N, dn = v dloss / N.
#include <algorithm>
#include <cmath>
#include <memory>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/loss/item_batch.h"
#include "layers/loss/triplet_rule.h"
#include "math/reduce.h"

namespace crema {
namespace {

class TripletLoss final : public Layer {
 public:
  explicit TripletLoss(const LayerParameter& param)
      : Layer(param),
        rule_{param.triplet_loss_param().margin(), param.triplet_loss_param().euclidean()} {
    if (!(rule_.margin >= 0 && std::isfinite(rule_.margin))) {
      FailField(*this, "triplet_loss_param.margin",
                StrCat("margin is ", rule_.margin, ", expected 0 or more"));
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    CheckEqualItems(*this, context.inputs);
    LayerInfo info;
    info.outputs = {{Shape{}, context.inputs[0].dtype}};
    info.backward_reads_input = {true, true, true};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const Shape& shape = args.inputs[0].shape();
    const int64_t values = shape.count(1);
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const Triplets<T> items(args.inputs);
      const double sum = OrderedSum(args.context.threads(), shape[0], ItemGrain(values),
                                    [&](int64_t begin, int64_t end) {
                                      double part = 0;
                                      for (int64_t n = begin; n < end; ++n) {
                                        const double cost = Measure(items, n * values, values).cost;
                                        part += cost < 0 ? 0 : cost;  // NaN stays NaN
                                      }
                                      return part;
                                    });
      args.outputs[0].data<T>()[0] = static_cast<T>(sum / BatchSize(shape));
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const Shape& shape = args.inputs[0].shape();
    const int64_t values = shape.count(1);
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const Triplets<T> items(args.inputs);
      const double scale = args.output_grads[0].data<T>()[0] / BatchSize(shape);
      ParallelFor(args.context.threads(), shape[0], ItemGrain(values),
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t n = begin; n < end; ++n) {
                      Spread(args, items, scale, n * values, values);
                    }
                  });
    });
  }

 private:
  template <typename T>
  struct Triplets {
    explicit Triplets(std::span<const ConstTensorView> inputs)
        : anchor(inputs[0].data<T>()),
          positive(inputs[1].data<T>()),
          negative(inputs[2].data<T>()) {}
    const T* anchor;
    const T* positive;
    const T* negative;
  };

  using Measured = TripletRule<double>::Measured;

  template <typename T>
  Measured Measure(const Triplets<T>& items, int64_t at, int64_t values) const {
    return rule_.Measure(SquaredDistance(items.anchor + at, items.positive + at, values),
                         SquaredDistance(items.anchor + at, items.negative + at, values));
  }

  template <typename T>
  void Spread(const BackwardArgs& args, const Triplets<T>& items, double scale, int64_t at,
              int64_t values) const {
    const Measured measured = Measure(items, at, values);
    const bool active = !(measured.cost <= 0);  // true for NaN too, so that NaN propagates
    const double pull = active ? scale * rule_.SlopeFactor(measured.to_positive) : 0;
    const double push = active ? scale * rule_.SlopeFactor(measured.to_negative) : 0;
    const auto write = [&](size_t input, int64_t i, double gradient) {
      const TensorView& view = args.input_grads[input];
      if (!view.empty()) view.data<T>()[i] = static_cast<T>(gradient);
    };
    for (int64_t i = at; i < at + values; ++i) {
      const auto anchor = static_cast<double>(items.anchor[i]);
      const double u = pull * (anchor - static_cast<double>(items.positive[i]));
      const double v = push * (anchor - static_cast<double>(items.negative[i]));
      write(0, i, u - v);
      write(1, i, -u);
      write(2, i, v);
    }
  }

  const TripletRule<double> rule_;
};

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
      {.name = "none_active", .prototxt = "", .inputs = {any, any, far}},
      {.name = "euclidean",
       .prototxt = "triplet_loss_param { margin: 0.5 euclidean: true }",
       .inputs = {any, any, any}},
      {.name = "euclidean_all_active",
       .prototxt = "triplet_loss_param { margin: 20 euclidean: true }",
       .inputs = {any, far, any}},
      {.name = "large",
       .prototxt = "triplet_loss_param { margin: 30 }",
       .inputs = {{.shape = {1201, 17}}, {.shape = {1201, 17}}, {.shape = {1201, 17}}}},
      {.name = "empty_batch",
       .prototxt = "",
       .inputs = {{.shape = {0, 3}}, {.shape = {0, 3}}, {.shape = {0, 3}}}},
  };
}

}  // namespace

void RegisterTripletLoss(Registry& registry) {
  LayerType type;
  type.name = "TripletLoss";
  type.category = "loss";
  type.summary =
      "Pulls a feature nearer to one of its own class than to one of another (FaceNet, 2015).";
  type.formula =
      "loss = sum_n max(0, D(a_n, p_n) - D(a_n, q_n) + margin) / N; D(x, y) = |x - y|^2, or |x - "
      "y| "
      "with euclidean";
  type.input_docs = {"anchors a: N items on axis 0, all values after it are the feature",
                     "positives p: as many items of the kind of the anchors",
                     "negatives q: as many items of other kinds"};
  type.output_docs = {"loss: scalar"};
  type.differences = {
      "Forks of this name differ in a factor; this is FaceNet's sum divided by the batch size, "
      "without the half that some have. loss_weight: 0.5 gives theirs."};
  type.origin = "community";
  type.param_fields = {"triplet_loss_param"};
  type.inputs = {3, 3};
  type.default_loss_weight = 1;
  type.make = [](const LayerParameter& p) { return std::make_unique<const TripletLoss>(p); };
  type.samples = Samples();
  const std::string expect = "same batch size and the same number of values";
  type.bad_samples = {
      {.prototxt = "", .input_shapes = {{4, 3}, {4, 3}, {4, 2}}, .expect = expect},
      {.prototxt = "", .input_shapes = {{4, 3}, {3, 3}, {4, 3}}, .expect = expect},
      {.prototxt = "triplet_loss_param { margin: -1 }",
       .input_shapes = {{4, 3}, {4, 3}, {4, 3}},
       .expect = "margin is -1, expected 0 or more"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
