// Online hard example mining of R-FCN:
//   SmoothL1LossOHEM: d = w * (a - b), cost_n = sum_c f(d_nc), f(d) = d^2 / 2 for |d| < 1, else |d|
//   -
//     1/2; loss = sum_n cost_n / normalizer. Output 1 is cost_n. da = w * clamp(d, -1, 1) * slope_n
//     with slope_n = dloss / normalizer + dcost_n; db = -da.
//   SoftmaxWithLossOHEM: p = softmax(scores), cost_n = -ln p_n,label, 0 for ignored labels; loss =
//   sum
//     cost_n / normalizer. Outputs 1 and 2 are p and cost_n. dscores_nc = (p_nc - [c = label]) *
//     slope_n, and the gradient of p.
//   BoxAnnotatorOHEM: keeps label and weights of the roi_per_img regions of each image with the
//     largest costs; other labels become ignore_label and other weights 0. No gradient.
#include "layers/loss/ohem.h"

#include <algorithm>

#include "core/strings.h"
#include "graph/registry.h"
#include "layers/loss/item_batch.h"
#include "layers/loss/item_loops.h"
#include "layers/loss/loss_type.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 6;  // fewest regions per thread

// Returns the gradient of the cost of each region: dloss / divisor + dcost.
template <typename T>
auto Slopes(const ConstTensorView& dloss, const ConstTensorView& dcosts, double divisor) {
  const double all = dloss.empty() ? 0 : ValueOf(dloss.data<T>()[0]) / divisor;
  const T* own = Elements<T>(dcosts);
  return [=](int64_t region) { return all + (own == nullptr ? 0 : ValueOf(own[region])); };
}

template <typename T, typename Regions>
void WriteCosts(const ForwardArgs& args, const Regions& regions, double divisor,
                const TensorView& costs) {
  const int threads = args.context.threads();
  const double sum = SumItems(threads, regions.size.count(), kGrain,
                              [&](int64_t n, double part) { return part + regions.Cost(n); });
  args.outputs[0].data<T>()[0] = ElementOf<T>(sum / divisor);
  T* own = Elements<T>(costs);
  if (own == nullptr) return;
  ForItems(threads, regions.size.count(), kGrain,
           [&](int64_t n) { own[n] = ElementOf<T>(regions.Cost(n)); });
}

class SmoothL1LossOHEM final : public Layer {
 public:
  explicit SmoothL1LossOHEM(const LayerParameter& param) : Layer(param), normalizer_(*this) {}

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    for (const BlobSpec& input : context.inputs) {
      if (shape.axes() >= 2 && input.shape == shape) continue;
      FailInputs(*this, StrCat("all bottoms must be N x C or N x C x H x W and equal, but two "
                               "shapes are ",
                               ToString(shape), " and ", ToString(input.shape)));
    }
    LayerInfo info = LossInfo(context, 2);
    if (context.output_count < 2) return info;
    std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
    dims[1] = 1;
    info.outputs.push_back({Shape(dims), context.inputs[0].dtype});
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const SmoothRegions<T> regions(args.inputs);
      WriteCosts<T>(args, regions, OhemDivisor(normalizer_, regions.size),
                    args.outputs.size() > 1 ? args.outputs[1] : TensorView());
    });
  }

  void Backward(const BackwardArgs& args) const override {
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const SmoothRegions<T> regions(args.inputs);
      const auto slope =
          Slopes<T>(args.output_grads[0],
                    args.output_grads.size() > 1 ? args.output_grads[1] : ConstTensorView(),
                    OhemDivisor(normalizer_, regions.size));
      for (size_t input = 0; input < 2; ++input) {
        T* dx = Elements<T>(args.input_grads[input]);
        if (dx == nullptr) continue;
        ForItems(args.context.threads(), regions.size.count(), kGrain, [&](int64_t n) {
          regions.WriteGradient(n, input == 0 ? slope(n) : -slope(n), dx);
        });
      }
    });
  }

 private:
  const LossNormalizer normalizer_;
};

class SoftmaxWithLossOHEM final : public Layer {
 public:
  explicit SoftmaxWithLossOHEM(const LayerParameter& param)
      : Layer(param), ignored_(IgnoredLabel(param.loss_param())), normalizer_(*this) {}

  LayerInfo Infer(const InferContext& context) const override {
    const BlobSpec &scores = context.inputs[0], &labels = context.inputs[1];
    const SoftmaxSize size =
        ClassSize(*this, scores.shape, param().softmax_param().axis(), "softmax_param.axis");
    CheckLabelShape(*this, scores.shape, size, labels.shape, true);
    LayerInfo info = LossInfo(context, 1);
    if (context.output_count > 1) info.outputs.push_back(scores);
    if (context.output_count > 2) info.outputs.push_back(labels);
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const double divisor = Divisor(args.inputs);
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const SoftmaxRegions<T> regions(SizeOf(args.inputs), *this, args.inputs);
      WriteCosts<T>(args, regions, divisor,
                    args.outputs.size() > 2 ? args.outputs[2] : TensorView());
      if (args.outputs.size() < 2) return;
      T* p = args.outputs[1].data<T>();
      ForItems(args.context.threads(), regions.size.count(), kGrain,
               [&](int64_t n) { regions.WriteProbabilities(n, p); });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const double divisor = Divisor(args.inputs);
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const SoftmaxRegions<T> regions(SizeOf(args.inputs), *this, args.inputs);
      const auto& dy = args.output_grads;
      const auto slope = Slopes<T>(dy[0], dy.size() > 2 ? dy[2] : ConstTensorView(), divisor);
      const T* dp = dy.size() > 1 ? Elements<T>(dy[1]) : nullptr;
      T* dx = args.input_grads[0].data<T>();
      ForItems(args.context.threads(), regions.size.count(), kGrain,
               [&](int64_t n) { regions.WriteGradient(n, slope(n), dp, dx); });
    });
  }

 private:
  RegionSize SizeOf(std::span<const ConstTensorView> inputs) const {
    return ScoreRegions(*this, inputs[0].shape());
  }
  double Divisor(std::span<const ConstTensorView> inputs) const {
    const RegionSize size = SizeOf(inputs);
    const int64_t counted = CheckLabels(
        *this, inputs[1], {.classes = size.values, .inner = size.inner, .ignored = ignored_});
    return normalizer_.Divisor({.outer = size.outer, .all = size.count(), .counted = counted});
  }

  const std::optional<int32_t> ignored_;
  const LossNormalizer normalizer_;
};

class BoxAnnotatorOHEM final : public Layer {
 public:
  explicit BoxAnnotatorOHEM(const LayerParameter& param) : Layer(param) {
    if (param.box_annotator_ohem_param().roi_per_img() > 0) return;
    FailField(*this, "box_annotator_ohem_param.roi_per_img",
              "roi_per_img must be given: how many regions of an image are kept");
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& rois = context.inputs[0].shape;
    if (rois.axes() < 2 || rois[1] != 5) {
      FailInputs(*this, StrCat("regions of shape ", ToString(rois),
                               ", expected N x 5: image, xmin, ymin, xmax, ymax"));
    }
    const int64_t regions = RegionsOf(rois).count();
    for (size_t i = 1; i < 3; ++i) {
      if (context.inputs[i].shape.count() == regions) continue;
      FailInputs(*this, StrCat("bottom ", i, " must have one value for each of the ", regions,
                               " regions, but its shape is ", ToString(context.inputs[i].shape)));
    }
    const Shape& weights = context.inputs[3].shape;
    if (weights.axes() < 2 || RegionsOf(weights).count() != regions || weights[0] != rois[0]) {
      FailInputs(*this, StrCat("box weights of shape ", ToString(weights), ", expected ", rois[0],
                               " x C with the further axes of the regions"));
    }
    LayerInfo info;
    info.outputs = {context.inputs[2], context.inputs[3]};
    info.gradient_forbidden.assign(4, true);
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const auto ignored = static_cast<double>(param().box_annotator_ohem_param().ignore_label());
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const RegionChoice<T> choice(*this, args.inputs);
      const RegionSize boxes = RegionsOf(args.inputs[3].shape());
      const T *labels = args.inputs[2].data<T>(), *weights = args.inputs[3].data<T>();
      T *to_labels = args.outputs[0].data<T>(), *to_weights = args.outputs[1].data<T>();
      ForItems(args.context.threads(), choice.size.count(), kGrain, [&](int64_t n) {
        const bool kept = choice.Chooses(n);
        to_labels[n] = kept ? labels[n] : ElementOf<T>(ignored);
        for (int64_t c = 0; c < boxes.values; ++c) {
          const int64_t i = boxes.First(n) + c * boxes.inner;
          to_weights[i] = kept ? weights[i] : T(0);
        }
      });
    });
  }
};

LayerType SmoothType() {
  LayerType type = LossType<SmoothL1LossOHEM>("SmoothL1LossOHEM");
  type.summary = "Huber loss of box regression that also gives the loss of each region.";
  type.formula =
      "d = weight * (a - b); f(d) = d^2 / 2 where |d| < 1, else |d| - 1/2; cost_n = sum of f over "
      "the "
      "values of region n; loss = sum of cost / normalizer";
  type.input_docs = {"a: N x C or N x C x H x W; a region is a position",
                     "b: the shape of a; may get a gradient too",
                     "weights: the shape of a; optional; no gradient"};
  type.output_docs = {"loss: scalar", "costs: N x 1 (x H x W), the loss of each region; optional"};
  type.differences = {
      "The gradient is multiplied by the weights, as the formula says; the fork's is not, which is "
      "the same for weights of 0 and 1.",
      "The second top may have a loss_weight or a gradient; in the fork it has none."};
  type.origin = "R-FCN";
  type.param_fields = {"loss_param"};
  type.unread_fields = FieldsOfSoftmaxWithLoss();
  type.unread_fields.emplace_back("loss_param.ignore_label");
  type.inputs = {2, 3};
  type.outputs = {1, 2};
  const SampleInput a{.shape = {4, 8}, .low = -3, .high = 3},
      b{.shape = {4, 8}, .low = 5, .high = 6};
  const SampleInput near{.shape = {2, 4, 3, 2}, .low = -0.4, .high = 0.4};
  const SampleInput weights{.shape = {2, 4, 3, 2}, .low = 0.5, .high = 1};
  type.samples = {
      {.name = "costs", .inputs = {a, b}, .outputs = 2},
      {.name = "near", .inputs = {near, near, weights}, .outputs = 2},
      {.name = "fixed",
       .prototxt = "loss_param { normalization: PRE_FIXED pre_fixed_normalizer: 3 }",
       .inputs = {a, b}},
      {.name = "batch",
       .prototxt = "loss_param { normalization: BATCH_SIZE }",
       .inputs = {near, near}},
      {.name = "empty_batch", .inputs = {{.shape = {0, 8}}, {.shape = {0, 8}}}, .outputs = 2},
  };
  type.bad_samples = {
      {.input_shapes = {{4, 3}, {4, 2}}, .expect = "must be N x C"},
      {.input_shapes = {{4}, {4}}, .expect = "must be N x C"},
      {.prototxt = "loss_param { normalization: PRE_FIXED pre_fixed_normalizer: 0 }",
       .input_shapes = {{4, 3}, {4, 3}},
       .expect = "pre_fixed_normalizer is 0"},
  };
  return type;
}

LayerType SoftmaxType() {
  LayerType type = LossType<SoftmaxWithLossOHEM>("SoftmaxWithLossOHEM");
  type.summary = "Softmax and logistic loss that also gives the loss of each region.";
  type.formula =
      "p = softmax(scores); cost_n = -ln p[n, label_n], 0 for ignored labels; loss = sum of cost / "
      "normalizer";
  type.input_docs = {"scores: N x C x ..., classes on softmax_param.axis; a region is a position",
                     "labels: one for each region, whole numbers 0..C-1 or ignore_label"};
  type.output_docs = {"loss: scalar", "probabilities: softmax of the scores; optional",
                      "costs: the shape of the labels, the loss of each region; optional"};
  type.differences = {
      kLabelErrors, "The cost of an ignored region is 0; in the fork it is left over from before.",
      "The optional tops may have a loss_weight or a gradient; in the fork they have "
      "none."};
  type.origin = "R-FCN";
  type.param_fields = {"softmax_param", "loss_param"};
  type.unread_fields = FieldsOfSoftmaxWithLoss();
  type.outputs = {1, 3};
  const SampleInput rows{.shape = {5, 4}, .low = -3, .high = 3};
  const SampleInput maps{.shape = {2, 3, 2, 3}, .low = -2, .high = 2};
  type.samples = {
      {.name = "costs", .inputs = {rows, Labels({5}, 3)}, .outputs = 3},
      {.name = "loss", .inputs = {rows, Labels({5, 1}, 3)}},
      {.name = "ignored",
       .prototxt = "loss_param { ignore_label: 1 }",
       .inputs = {maps, Labels({2, 1, 2, 3}, 2)},
       .outputs = 3},
      {.name = "fixed",
       .prototxt = "loss_param { normalization: PRE_FIXED pre_fixed_normalizer: 3 }",
       .inputs = {maps, Labels({2, 2, 3}, 2)},
       .outputs = 2},
      {.name = "empty_batch", .inputs = {{.shape = {0, 4}}, Labels({0}, 3)}, .outputs = 3},
  };
  type.bad_samples = {
      {.input_shapes = {{4, 3}, {3}}, .expect = "label"},
      {.prototxt = "softmax_param { axis: 2 }", .input_shapes = {{4, 3}, {4}}, .expect = "axis"},
  };
  return type;
}

LayerType AnnotatorType() {
  LayerType type;
  type.name = "BoxAnnotatorOHEM";
  type.category = "loss";
  type.summary = "Keeps the labels and box weights of the regions with the largest losses.";
  type.formula =
      "the roi_per_img regions of each image with the largest cost, of equal ones the first, keep "
      "label and weights; others get ignore_label and weights of 0";
  type.input_docs = {"regions: N x 5 (x H x W), image, xmin, ymin, xmax, ymax",
                     "costs: one for each region, the sum of the losses that count",
                     "labels: one for each region", "box weights: N x C (x H x W)"};
  type.output_docs = {"labels: the shape of the labels", "box weights: the shape of the weights"};
  type.differences = {
      "A cost that is not a number counts as the smallest; in the fork the order is "
      "then undefined."};
  type.origin = "R-FCN";
  type.param_fields = {"box_annotator_ohem_param"};
  type.inputs = {4, 4};
  type.outputs = {2, 2};
  type.make = [](const LayerParameter& p) { return std::make_unique<const BoxAnnotatorOHEM>(p); };
  const SampleInput costs{.shape = {24}, .low = 0, .high = 4};
  // One image: in a small batch, too, regions push each other out.
  const SampleInput rois{.shape = {24, 5}, .low = 0, .high = 0, .integer = true};
  type.samples = {
      {.name = "rows",
       .prototxt = "box_annotator_ohem_param { roi_per_img: 1 }",
       .inputs = {rois, costs, Labels({24}, 3), {.shape = {24, 8}}},
       .outputs = 2,
       .gradient = false},
      {.name = "maps",
       .prototxt = "box_annotator_ohem_param { roi_per_img: 5 ignore_label: -7 }",
       .inputs = {{.shape = {2, 5, 3, 2}, .low = 0, .high = 1, .integer = true},
                  {.shape = {2, 1, 3, 2}},
                  Labels({2, 1, 3, 2}, 3),
                  {.shape = {2, 4, 3, 2}}},
       .outputs = 2,
       .gradient = false},
  };
  const auto bad = [](const char* text, const char* expect,
                      std::vector<std::vector<int64_t>> shapes) {
    return BadSample{
        .prototxt = text, .input_shapes = std::move(shapes), .expect = expect, .outputs = 2};
  };
  const char* good = "box_annotator_ohem_param { roi_per_img: 3 }";
  type.bad_samples = {
      bad("box_annotator_ohem_param { roi_per_img: 0 }", "roi_per_img must be given",
          {{9, 5}, {9}, {9}, {9, 8}}),
      bad(good, "expected N x 5", {{9, 4}, {9}, {9}, {9, 8}}),
      bad(good, "bottom 1 must have one value", {{9, 5}, {8}, {9}, {9, 8}}),
      bad(good, "bottom 2 must have one value", {{9, 5}, {9}, {8}, {9, 8}}),
      bad(good, "expected 9 x C", {{9, 5}, {9}, {9}, {8, 8}}),
  };
  return type;
}

}  // namespace

void RegisterSmoothL1LossOHEM(Registry& registry) { registry.Add(SmoothType()); }
void RegisterSoftmaxWithLossOHEM(Registry& registry) { registry.Add(SoftmaxType()); }
void RegisterBoxAnnotatorOHEM(Registry& registry) { registry.Add(AnnotatorType()); }

}  // namespace crema
