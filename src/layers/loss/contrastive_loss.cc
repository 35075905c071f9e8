// ContrastiveLoss of pairs (a, b) with a label: d = |a - b|, and a pair costs
//   alike (label not 0): d^2;  unlike (label 0): max(margin - d, 0)^2
//   with legacy_version, unlike: max(margin - d^2, 0)
// loss = sum / (2 N). da = f (a - b) * dloss / N, db = -da, with f
//   alike: 1;  unlike with a positive cost: -(margin - d) / d, legacy -1;  else 0.
#include <algorithm>
#include <cmath>
#include <memory>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/loss/contrastive_rule.h"
#include "layers/loss/item_batch.h"
#include "layers/loss/labels.h"
#include "math/reduce.h"

namespace crema {
namespace {

class ContrastiveLoss final : public Layer {
 public:
  explicit ContrastiveLoss(const LayerParameter& param)
      : Layer(param),
        rule_{param.contrastive_loss_param().margin(),
              param.contrastive_loss_param().legacy_version()} {
    if (!(rule_.margin >= 0 && std::isfinite(rule_.margin))) {
      FailField(*this, "contrastive_loss_param.margin",
                StrCat("margin is ", rule_.margin, ", expected 0 or more"));
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    CheckEqualItems(*this, context.inputs.first(2));
    const Shape& a = context.inputs[0].shape;
    const Shape& labels = context.inputs[2].shape;
    if (labels.count() != a[0] || labels.axes() == 0) {
      FailInputs(*this, StrCat("the third bottom holds a label for each of the ", a[0],
                               " pairs, but its shape is ", ToString(labels)));
    }
    LayerInfo info;
    info.outputs = {{Shape{}, context.inputs[0].dtype}};
    info.backward_reads_input = {true, true, true};
    info.gradient_forbidden = {false, false, true};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    CheckWholeNumbers(*this, args.inputs[2], 2);
    const Shape& shape = args.inputs[0].shape();
    const int64_t values = shape.count(1);
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* a = args.inputs[0].data<T>();
      const T* b = args.inputs[1].data<T>();
      const T* labels = args.inputs[2].data<T>();
      const double sum = OrderedSum(
          args.context.threads(), shape[0], ItemGrain(values), [&](int64_t begin, int64_t end) {
            double part = 0;
            for (int64_t n = begin; n < end; ++n) {
              part += rule_.Cost(SquaredDistance(a + n * values, b + n * values, values),
                                 labels[n] != 0);
            }
            return part;
          });
      args.outputs[0].data<T>()[0] = static_cast<T>(sum / (2 * BatchSize(shape)));
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const Shape& shape = args.inputs[0].shape();
    const int64_t values = shape.count(1);
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* a = args.inputs[0].data<T>();
      const T* b = args.inputs[1].data<T>();
      const T* labels = args.inputs[2].data<T>();
      const double scale = args.output_grads[0].data<T>()[0] / BatchSize(shape);
      ParallelFor(args.context.threads(), shape[0], ItemGrain(values),
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t n = begin; n < end; ++n) {
                      const int64_t at = n * values;
                      const double factor =
                          scale *
                          rule_.Factor(SquaredDistance(a + at, b + at, values), labels[n] != 0);
                      Spread(args, a, b, factor, at, at + values);
                    }
                  });
    });
  }

 private:
  template <typename T>
  static void Spread(const BackwardArgs& args, const T* a, const T* b, double factor, int64_t begin,
                     int64_t end) {
    T* da = args.input_grads[0].empty() ? nullptr : args.input_grads[0].data<T>();
    T* db = args.input_grads[1].empty() ? nullptr : args.input_grads[1].data<T>();
    for (int64_t i = begin; i < end; ++i) {
      const double gradient = factor * (static_cast<double>(a[i]) - static_cast<double>(b[i]));
      if (da != nullptr) da[i] = static_cast<T>(gradient);
      if (db != nullptr) db[i] = static_cast<T>(-gradient);
    }
  }

  const ContrastiveRule<double> rule_;
};

std::vector<LayerSample> Samples() {
  const SampleInput a{.shape = {9, 3}};
  const SampleInput b{.shape = {9, 3, 1, 1}};
  const SampleInput labels{.shape = {9}, .low = 0, .high = 1, .integer = true};
  return {
      {.name = "pairs",
       .prototxt = "contrastive_loss_param { margin: 1 }",
       .inputs = {a, b, labels}},
      {.name = "wide_margin",
       .prototxt = "contrastive_loss_param { margin: 20 }",
       .inputs = {a, b, labels}},
      {.name = "legacy",
       .prototxt = "contrastive_loss_param { margin: 1.5 legacy_version: true }",
       .inputs = {a, b, labels}},
      {.name = "any_label_but_0_is_alike",
       .prototxt = "",
       .inputs = {a, b, {.shape = {9, 1}, .low = -2, .high = 2, .integer = true}}},
      {.name = "large",
       .prototxt = "contrastive_loss_param { margin: 2 }",
       .inputs = {{.shape = {1201, 17}},
                  {.shape = {1201, 17}},
                  {.shape = {1201}, .low = 0, .high = 1, .integer = true}}},
      {.name = "empty_batch",
       .prototxt = "",
       .inputs = {{.shape = {0, 3}}, {.shape = {0, 3}}, {.shape = {0}}}},
  };
}

}  // namespace

void RegisterContrastiveLoss(Registry& registry) {
  LayerType type;
  type.name = "ContrastiveLoss";
  type.category = "loss";
  type.summary = "Pulls pairs of features that are alike together and pushes others apart.";
  type.formula =
      "d_n = |a_n - b_n|; loss = sum_n (d_n^2 if alike, else max(margin - d_n, 0)^2) / (2 N); "
      "legacy_version: max(margin - d_n^2, 0) for unlike pairs";
  type.input_docs = {"a: N items on axis 0, all values after it are the feature",
                     "b: as many items with as many values each; may get a gradient too",
                     "labels: N whole numbers; 0: unlike, any other: alike; no gradient"};
  type.output_docs = {"loss: scalar"};
  type.differences = {
      "The gradient of an unlike pair is the derivative; Caffe adds 1e-4 to the distance that it "
      "divides by. At distance 0 it is 0 in both.",
      "Features may have any axes, and the batch size may change; Caffe wants height and width 1.",
      "Labels that are no whole number are an error that names the item."};
  type.param_fields = {"contrastive_loss_param"};
  type.inputs = {3, 3};
  type.default_loss_weight = 1;
  type.make = [](const LayerParameter& p) { return std::make_unique<const ContrastiveLoss>(p); };
  type.samples = Samples();
  type.bad_samples = {
      {.prototxt = "", .input_shapes = {{4, 3}, {4, 2}, {4}}, .expect = "same number of values"},
      {.prototxt = "", .input_shapes = {{4, 3}, {4, 3}, {3}}, .expect = "label for each of the 4"},
      {.prototxt = "contrastive_loss_param { margin: -1 }",
       .input_shapes = {{4, 3}, {4, 3}, {4}},
       .expect = "margin is -1, expected 0 or more"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
