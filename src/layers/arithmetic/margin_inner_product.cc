// LargeMarginInnerProduct (Liu et al.: Large-Margin Softmax Loss, 2016) and MarginInnerProduct (the
// same authors: SphereFace, 2017): the product of features x and weights w_j, whose score at the
// label j is smaller by a margin:
//   y_j = |x| |w_j| (lambda c + psi(c)) / (1 + lambda), c = cos of the angle t of x and w_j,
//   psi(c) = (-1)^k cos(m t) - 2 k, k = floor(m t / pi) below m
// MarginInnerProduct has |w_j| = 1: it divides all scores by |w_j|.
// With f(c) = y_j / (|x| |w_j|): dy_j / dx = f'(c) w_j + (f(c) - c f'(c)) (|w_j| / |x|) x. So the
// gradients are those of the plain product for f'(c) dy, and a multiple of x and of w_j.
#include "layers/arithmetic/margin_inner_product.h"

#include <memory>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "graph/registry.h"
#include "layers/layer_axis.h"
#include "layers/layer_number.h"
#include "layers/loss/labels.h"
#include "math/conv_grads.h"
#include "math/scratch.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 13;  // fewest elements per thread

bool Normalizes(const Layer& layer) { return layer.param().type() == "MarginInnerProduct"; }

const MarginInnerProductParameter& Parameters(const Layer& layer) {
  return Normalizes(layer) ? layer.param().margin_inner_product_param()
                           : layer.param().largemargin_inner_product_param();
}

std::string Field(const Layer& layer, const char* name) {
  return StrCat(
      Normalizes(layer) ? "margin_inner_product_param." : "largemargin_inner_product_param.", name);
}

// Lengths of the rows of a matrix.
template <typename T>
void RowLengths(int threads, int64_t rows, int64_t columns, const T* x, double* lengths) {
  ParallelFor(threads, rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, columns)),
              [&](int64_t begin, int64_t end, int) {
                for (int64_t r = begin; r < end; ++r) {
                  double square = 0;
                  for (int64_t i = r * columns; i < (r + 1) * columns; ++i) {
                    square += double{x[i]} * double{x[i]};
                  }
                  lengths[r] = MarginLength(square);
                }
              });
}

class MarginInnerProduct final : public Layer {
 public:
  explicit MarginInnerProduct(const LayerParameter& param) : Layer(param) {
    const MarginInnerProductParameter& p = Parameters(*this);
    if (p.num_output() == 0) {
      FailField(*this, Field(*this, "num_output"),
                "num_output is missing or 0; it is the number of classes");
    }
    for (const auto& [value, name] : {std::pair(p.base(), "base"), std::pair(p.gamma(), "gamma"),
                                      std::pair(p.lambda_min(), "lambda_min")}) {
      FiniteNumber(*this, value, Field(*this, name));
      if (value < 0) {
        FailField(*this, Field(*this, name), StrCat(name, " is ", value, ", expected 0 or more"));
      }
    }
    FiniteNumber(*this, p.power(), Field(*this, "power"));
    if (p.iteration() < 0) {
      FailField(*this, Field(*this, "iteration"),
                StrCat("iteration is ", p.iteration(), ", expected 0 or more"));
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape &x = context.inputs[0].shape, &labels = context.inputs[1].shape;
    const InnerProductSize size = MarginSize(*this, x);
    if (size.inputs == 0)
      FailInputs(*this, StrCat("features of shape ", ToString(x), " are empty"));
    if (labels.count() != size.rows) {
      FailInputs(*this, StrCat("features of shape ", ToString(x), " need ", size.rows,
                               " labels, but the labels have shape ", ToString(labels)));
    }
    const int axis = LayerAxis(*this, x, Parameters(*this).axis(), Field(*this, "axis"));
    std::vector<int64_t> dims(x.dims().begin(), x.dims().begin() + axis);
    dims.push_back(size.outputs);
    LayerInfo info;
    info.outputs = {{Shape(std::span<const int64_t>(dims)), context.inputs[0].dtype}};
    if (context.output_count > 1) info.outputs.push_back({Shape{1}, context.inputs[0].dtype});
    const bool by_sample =
        context.output_count == 1 && axis > 0 && labels.axes() > 0 && labels[0] == x[0];
    info.reach = by_sample ? Reach::kSample : Reach::kAll;
    info.parameters = {{.role = "weight",
                        .shape = Shape{size.outputs, size.inputs},
                        .filler = Parameters(*this).weight_filler()}};
    info.backward_reads_input = {true, true};
    info.gradient_forbidden = {false, true};
    info.macs = size.rows * size.inputs * size.outputs;
    return info;
  }

  size_t ForwardScratch(const InferContext& context, const LayerInfo&, int) const override {
    return LengthScratch(MarginSize(*this, context.inputs[0].shape));
  }

  void Forward(const ForwardArgs& args) const override {
    const InnerProductSize size = MarginSize(*this, args.inputs[0].shape());
    CheckLabels(*this, args.inputs[1], Labels(size));
    const MarginRule rule(*this);
    const double lambda = rule.Lambda(args.context.step());
    const int threads = args.context.threads();
    ScratchCutter cutter(args.scratch);
    double* inputs = cutter.Take<double>(size.rows);
    double* weights = cutter.Take<double>(size.outputs);
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T *x = args.inputs[0].data<T>(), *labels = args.inputs[1].data<T>();
      const T* weight = args.parameters[0].data<T>();
      T* y = args.outputs[0].data<T>();
      RowLengths(threads, size.rows, size.inputs, x, inputs);
      RowLengths(threads, size.outputs, size.inputs, weight, weights);
      InnerProductForward<T>(threads, size, x, weight, nullptr, FusedRelu{}, y);
      ForRows(threads, size, [&](int64_t n) {
        T* row = y + n * size.outputs;
        const auto label = static_cast<int64_t>(labels[n]);
        const double c = double{row[label]} / (inputs[n] * weights[label]);
        const double score = rule.Length(inputs[n], weights[label]) * rule.Score(c, lambda).value;
        if (rule.normalizes) {
          for (int64_t j = 0; j < size.outputs; ++j) row[j] = static_cast<T>(row[j] / weights[j]);
        }
        row[label] = static_cast<T>(score);
      });
      if (args.outputs.size() > 1) args.outputs[1].data<T>()[0] = static_cast<T>(lambda);
    });
  }

  // The lengths, the plain products and their gradient.
  size_t BackwardScratch(const InferContext& context, const LayerInfo&, int) const override {
    const InnerProductSize size = MarginSize(*this, context.inputs[0].shape);
    const int64_t scores = size.rows * size.outputs;
    const bool f32 = context.dtype == DType::kF32;
    return LengthScratch(size) +
           2 * (f32 ? ScratchBytes<float>(scores) : ScratchBytes<double>(scores)) +
           (f32 ? InnerProductBackwardScratch<float>(size, FusedRelu{})
                : InnerProductBackwardScratch<double>(size, FusedRelu{}));
  }

  void Backward(const BackwardArgs& args) const override {
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) { BackwardOf<T>(args); });
  }

 private:
  static size_t LengthScratch(const InnerProductSize& size) {
    return ScratchBytes<double>(size.rows) + ScratchBytes<double>(size.outputs) + kScratchSlack;
  }

  LabelRule Labels(const InnerProductSize& size) const {
    return {.classes = size.outputs, .classes_from = "num_output"};
  }

  template <typename Body>
  static void ForRows(int threads, const InnerProductSize& size, const Body& body) {
    ParallelFor(threads, size.rows, std::max<int64_t>(1, kGrain / size.outputs),
                [&](int64_t begin, int64_t end, int) {
                  for (int64_t n = begin; n < end; ++n) body(n);
                });
  }

  template <typename T>
  void BackwardOf(const BackwardArgs& args) const {
    const InnerProductSize size = MarginSize(*this, args.inputs[0].shape());
    const int threads = args.context.threads();
    const int64_t scores = size.rows * size.outputs;
    ScratchCutter cutter(args.scratch);
    double* inputs = cutter.Take<double>(size.rows);
    double* weights = cutter.Take<double>(size.outputs);
    T* products = cutter.Take<T>(scores);
    T* plain = cutter.Take<T>(scores);
    const T *x = args.inputs[0].data<T>(), *weight = args.parameters[0].data<T>();
    RowLengths(threads, size.rows, size.inputs, x, inputs);
    RowLengths(threads, size.outputs, size.inputs, weight, weights);
    InnerProductForward<T>(threads, size, x, weight, nullptr, FusedRelu{}, products);
    const MarginRule rule(*this);
    const double lambda = rule.Lambda(args.context.step());
    const T *labels = args.inputs[1].data<T>(), *dy = args.output_grads[0].data<T>();
    const auto factors = [&](int64_t n, int64_t j) {
      const int64_t at = n * size.outputs + j;
      const double c = double{products[at]} / (inputs[n] * weights[j]);
      const bool label = static_cast<int64_t>(labels[n]) == j;
      return rule.Factors(double{dy[at]}, c, label ? rule.Score(c, lambda) : MarginScore{c, 1},
                          inputs[n], weights[j]);
    };
    ForRows(threads, size, [&](int64_t n) {
      for (int64_t j = 0; j < size.outputs; ++j) {
        plain[n * size.outputs + j] = static_cast<T>(factors(n, j).of_weight);
      }
    });
    ProductGrads<T> grads;
    grads.x = x;
    grads.dy = plain;
    grads.weight = weight;
    grads.dx = args.input_grads[0].empty() ? nullptr : args.input_grads[0].data<T>();
    grads.dweight = args.parameter_grads[0].empty() ? nullptr : args.parameter_grads[0].data<T>();
    InnerProductBackward<T>(threads, size, FusedRelu{}, grads, cutter.Rest());
    if (grads.dx != nullptr) {
      AddRows(
          threads, size.rows, size.inputs, size.outputs,
          [&](int64_t n, int64_t j) { return factors(n, j).of_input; }, x, grads.dx);
    }
    if (grads.dweight != nullptr) {
      AddRows(
          threads, size.outputs, size.inputs, size.rows,
          [&](int64_t j, int64_t n) { return factors(n, j).of_self; }, weight, grads.dweight);
    }
  }

  // sum[r] += (sum of factor(r, k) for k < others) x[r] for rows r.
  template <typename T, typename Factor>
  static void AddRows(int threads, int64_t rows, int64_t columns, int64_t others,
                      const Factor& factor, const T* x, T* sum) {
    ParallelFor(threads, rows, std::max<int64_t>(1, kGrain / (columns + others)),
                [&](int64_t begin, int64_t end, int) {
                  for (int64_t r = begin; r < end; ++r) {
                    double total = 0;
                    for (int64_t k = 0; k < others; ++k) total += factor(r, k);
                    for (int64_t i = r * columns; i < (r + 1) * columns; ++i) {
                      sum[i] += static_cast<T>(total * double{x[i]});
                    }
                  }
                });
  }
};

std::vector<BadSample> BadSamples(const std::string& message) {
  const auto bad = [&](const std::string& fields, const char* expect,
                       std::vector<std::vector<int64_t>> shapes = {{2, 3}, {2}}) {
    return BadSample{message + " { " + fields + " }", std::move(shapes), expect};
  };
  return {
      bad("", "num_output is missing"),
      bad("num_output: 3 axis: 2", "axis 2"),
      bad("num_output: 3 base: -1", "base is -1"),
      bad("num_output: 3 gamma: -1", "gamma is -1"),
      bad("num_output: 3 lambda_min: nan", "finite number"),
      bad("num_output: 3 power: inf", "finite number"),
      bad("num_output: 3 iteration: -1", "iteration is -1"),
      bad("num_output: 3", "need 2 labels", {{2, 3}, {3}}),
      bad("num_output: 3", "are empty", {{2, 0}, {2}}),
  };
}

LayerType CommonType(const std::string& name, const std::string& message) {
  LayerType type;
  type.name = name;
  type.category = "arithmetic";
  type.input_docs = {"x: features of M items: the axes before `axis`, and those from it on",
                     "label: M classes"};
  type.output_docs = {"y: the axes of x before `axis`, then num_output",
                      "lambda, if there is a second top: 1"};
  type.parameter_docs = {"weight: num_output x the number of features"};
  type.param_fields = {message};
  type.inputs = {2, 2};
  type.outputs = {1, 2};
  type.traits.multiplies_matrices = true;
  type.make = [](const LayerParameter& p) { return std::make_unique<const MarginInnerProduct>(p); };
  const auto sample = [&](std::string test, const std::string& fields, int outputs = 1) {
    return LayerSample{
        .name = std::move(test),
        .prototxt = message + " { num_output: 5 " + fields +
                    " weight_filler { type: \"gaussian\" std: 0.5 } }",
        .inputs = {{.shape = {6, 4}}, {.shape = {6}, .low = 0, .high = 4, .integer = true}},
        .outputs = outputs};
  };
  type.samples = {
      sample("quadruple", "type: QUADRUPLE base: 0.5 gamma: 0.1 power: 2 lambda_min: 0.1"),
      sample("triple", "type: TRIPLE base: 0", 2),
      sample("double", "type: DOUBLE base: 1000 lambda_min: 2"),
      sample("single", "", 2),
      {.name = "image",
       .prototxt = message + " { num_output: 3 type: QUADRUPLE base: 1 weight_filler { type: "
                             "\"gaussian\" std: 0.5 } }",
       .inputs = {{.shape = {3, 2, 2, 2}}, {.shape = {3}, .low = 0, .high = 2, .integer = true}}},
      {.name = "empty_batch",
       .prototxt = message + " { num_output: 3 }",
       .inputs = {{.shape = {0, 4}}, {.shape = {0}, .integer = true}}},
  };
  type.bad_samples = BadSamples(message);
  return type;
}

}  // namespace

MarginRule::MarginRule(const Layer& layer) : normalizes(Normalizes(layer)) {
  const MarginInnerProductParameter& p = Parameters(layer);
  factor = static_cast<int>(p.type()) + 1;
  for (int i = 1; i <= 3; ++i) limits[i - 1] = std::cos(std::numbers::pi * i / factor);
  base = double{p.base()};
  gamma = double{p.gamma()};
  power = double{p.power()};
  first = static_cast<double>(p.iteration());
  least = double{p.lambda_min()};
}

InnerProductSize MarginSize(const Layer& layer, const Shape& x) {
  const int axis = LayerAxis(layer, x, Parameters(layer).axis(), Field(layer, "axis"));
  return {x.count(0, axis), x.count(axis), Parameters(layer).num_output()};
}

void RegisterLargeMarginInnerProduct(Registry& registry) {
  LayerType type = CommonType("LargeMarginInnerProduct", "largemargin_inner_product_param");
  type.summary = "Inner product with a margin of the angle at the label (L-Softmax).";
  type.formula =
      "y_j = x . w_j; at the label |x| |w_j| (lambda cos t + psi(t)) / (1 + lambda), t = angle of "
      "x "
      "and w_j, psi(t) = (-1)^k cos(m t) - 2 k, k = floor(m t / pi)";
  type.differences = {
      "lambda depends on the number of forward passes also after a run is resumed, where the fork "
      "begins anew."};
  type.origin = "L-Softmax";
  registry.Add(std::move(type));
}

void RegisterMarginInnerProduct(Registry& registry) {
  LayerType type = CommonType("MarginInnerProduct", "margin_inner_product_param");
  type.summary = "Inner product with weights of length 1 and a margin of the angle (SphereFace).";
  type.formula =
      "y_j = x . w_j / |w_j|; at the label |x| (lambda cos t + psi(t)) / (1 + lambda), t = angle "
      "of "
      "x and w_j, psi(t) = (-1)^k cos(m t) - 2 k, k = floor(m t / pi)";
  type.differences = {
      "Gradients are the derivatives. The fork scales that of x at the label to a fixed length, "
      "and ignores the margin in that of the weights.",
      "The weights keep their length; the fork overwrites them with weights of length 1.",
      "lambda depends on the number of forward passes also after a run is resumed, where the fork "
      "begins anew."};
  type.origin = "SphereFace";
  registry.Add(std::move(type));
}

}  // namespace crema
