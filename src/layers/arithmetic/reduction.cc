// Reduction: folds the axes from `axis` on, or the given `axes`, into one value.
//   SUM:         y = c * sum x        dx = c * dy
//   ASUM:        y = c * sum |x|      dx = c * sign(x) * dy
//   SUMSQ:       y = c * sum x^2      dx = 2 * c * x * dy
//   MEAN:        y = c * mean x       dx = c / n * dy
//   L2:          y = c * |x|          dx = c * x / |x| * dy, and 0 for |x| = 0
//   LOG_SUM:     y = c * log sum x    dx = c / sum x * dy
//   LOG_SUM_EXP: y = c * log sum exp x   dx = c * softmax(x) * dy
//   PROD:        y = c * prod x       dx = c * the product of the other elements * dy
//   MAX, MIN:    y = c * max x        dx = c * dy for the first of the largest elements, else 0
// Sums and products are computed in f64. The layer saves the position of MAX and MIN, and the value
// of L2, LOG_SUM and LOG_SUM_EXP without the coefficient.
#include "layers/arithmetic/reduction.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "core/parallel_for.h"
#include "graph/registry.h"
#include "layers/arithmetic/reduction_folds.h"
#include "math/broadcast_tiles.h"

namespace crema {
namespace {

using Operation = ReductionParameter::ReductionOp;

// Returns true if backward needs the value of the fold, which is saved.
bool SavesValue(Operation operation) {
  return operation == ReductionParameter::L2 || operation == ReductionParameter::LOG_SUM ||
         operation == ReductionParameter::LOG_SUM_EXP;
}

bool SavesPosition(Operation operation) {
  return operation == ReductionParameter::MAX || operation == ReductionParameter::MIN;
}

bool ReadsInput(Operation operation) {
  switch (operation) {
    case ReductionParameter::ASUM:
    case ReductionParameter::SUMSQ:
    case ReductionParameter::L2:
    case ReductionParameter::LOG_SUM_EXP:
    case ReductionParameter::PROD:
      return true;
    default:
      return false;
  }
}

// dx for elements x of outputs with the gradient dy, times the factor, and the saved value v.
template <typename T>
void Unfold(Operation operation, int64_t count, const T* x, const T* v, const T* dy, T factor,
            T* dx) {
  switch (operation) {
    case ReductionParameter::ASUM:
      for (int64_t i = 0; i < count; ++i) dx[i] = factor * dy[i] * T((x[i] > 0) - (x[i] < 0));
      return;
    case ReductionParameter::SUMSQ:
      for (int64_t i = 0; i < count; ++i) dx[i] = 2 * factor * dy[i] * x[i];
      return;
    case ReductionParameter::L2:
      for (int64_t i = 0; i < count; ++i) dx[i] = v[i] == 0 ? T(0) : factor * dy[i] * (x[i] / v[i]);
      return;
    case ReductionParameter::LOG_SUM:
      for (int64_t i = 0; i < count; ++i) dx[i] = factor * dy[i] * std::exp(-v[i]);
      return;
    case ReductionParameter::LOG_SUM_EXP:
      for (int64_t i = 0; i < count; ++i) dx[i] = factor * dy[i] * FastExp(x[i] - v[i]);
      return;
    default:
      for (int64_t i = 0; i < count; ++i) dx[i] = factor * dy[i];
  }
}

class Reduction final : public Layer {
 public:
  explicit Reduction(const LayerParameter& param)
      : Layer(param), operation_(param.reduction_param().operation()) {
    const ReductionParameter& reduction = param.reduction_param();
    if (reduction.axes_size() > 0 && reduction.has_axis()) {
      FailField(*this, "reduction_param.axis", "axes replaces axis; remove one of them");
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& x = context.inputs[0].shape;
    const FoldedAxes folded = FoldedAxesOf(*this, x);
    const Shape y = FoldedShape(x, folded, param().reduction_param().keep_dims());
    LayerInfo info;
    info.outputs = {{y, context.inputs[0].dtype}};
    info.reach = folded[0] ? Reach::kAll : Reach::kSample;
    // SUM and MEAN need only the shape of x, which the gradient has too.
    info.backward_reads_input = {ReadsInput(operation_)};
    info.moves_only = SavesPosition(operation_) && param().reduction_param().coeff() == 1;
    if (SavesValue(operation_)) info.saved = {{y, context.inputs[0].dtype}};
    if (SavesPosition(operation_)) info.saved = {{y, DType::kI32}};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) { ForwardOf<T>(args); });
  }

  void Backward(const BackwardArgs& args) const override {
    DispatchFloat(args.input_grads[0].dtype(), [&]<typename T>(T) {
      if (SavesPosition(operation_)) return ScatterGradient<T>(args);
      if (operation_ == ReductionParameter::PROD) return ProductGradient<T>(args);
      WriteGradient<T>(args);
    });
  }

  size_t ForwardScratch(const InferContext& context, const LayerInfo& info, int) const override {
    const BroadcastMap map = FoldMap(*this, context.inputs[0].shape);
    const int64_t outputs = info.outputs[0].shape.count();
    // The largest state of all folds.
    return FoldScratch<BestState>(map, 0, outputs);
  }
  size_t BackwardScratch(const InferContext& context, const LayerInfo& info,
                         int threads) const override {
    return operation_ == ReductionParameter::PROD ? ForwardScratch(context, info, threads) : 0;
  }

 private:
  template <typename T>
  void ForwardOf(const ForwardArgs& args) const {
    const auto same = [](double sum) { return sum; };
    switch (operation_) {
      case ReductionParameter::SUM:
      case ReductionParameter::MEAN:
        return Fold<T>(args, TermFold<T, ValueTerm>(), same);
      case ReductionParameter::ASUM:
        return Fold<T>(args, TermFold<T, MagnitudeTerm>(), same);
      case ReductionParameter::SUMSQ:
        return Fold<T>(args, TermFold<T, SquareTerm>(), same);
      case ReductionParameter::L2:
        return Fold<T>(args, TermFold<T, SquareTerm>(), [](double sum) { return std::sqrt(sum); });
      case ReductionParameter::LOG_SUM:
        return Fold<T>(args, TermFold<T, ValueTerm>(), [](double sum) { return std::log(sum); });
      case ReductionParameter::LOG_SUM_EXP:
        return Fold<T>(args, ExpFold<T>(), LogOf);
      case ReductionParameter::PROD:
        return Fold<T>(args, ProductFold<T>(), [](const ProductState& state) {
          return state.zeros > 0 ? 0 : state.product;
        });
      case ReductionParameter::MAX:
        return FoldBest<T>(args, BestFold<T, true>());
      case ReductionParameter::MIN:
        return FoldBest<T>(args, BestFold<T, false>());
    }
  }

  template <typename T, typename FoldOf>
  typename FoldOf::State* States(const ExecContext& context, std::span<std::byte> scratch,
                                 const ConstTensorView& input, int64_t outputs,
                                 const FoldOf& fold) const {
    const T* x = input.data<T>();
    return FoldTiles(
        context.threads(), FoldMap(*this, input.shape()), 0, outputs, fold,
        [=] { return [=](int64_t at, int64_t) { return x + at; }; }, scratch);
  }

  // y = the factor times value_of(state); saves the value.
  template <typename T, typename FoldOf, typename ValueOf>
  void Fold(const ForwardArgs& args, const FoldOf& fold, const ValueOf& value_of) const {
    const int64_t outputs = args.outputs[0].count();
    const auto* states = States<T>(args.context, args.scratch, args.inputs[0], outputs, fold);
    const double factor = Factor(args.inputs[0].shape(), outputs);
    const bool saves = SavesValue(operation_) && !args.saved[0].empty();
    T* y = args.outputs[0].data<T>();
    T* saved = saves ? args.saved[0].data<T>() : nullptr;
    for (int64_t k = 0; k < outputs; ++k) {
      const double value = value_of(states[k]);
      y[k] = static_cast<T>(factor * value);
      if (saved != nullptr) saved[k] = static_cast<T>(value);
    }
  }

  template <typename T, typename FoldOf>
  void FoldBest(const ForwardArgs& args, const FoldOf& fold) const {
    const int64_t outputs = args.outputs[0].count();
    const BestState* states = States<T>(args.context, args.scratch, args.inputs[0], outputs, fold);
    const double factor = Factor(args.inputs[0].shape(), outputs);
    T* y = args.outputs[0].data<T>();
    int32_t* saved = args.saved[0].empty() ? nullptr : args.saved[0].data<int32_t>();
    for (int64_t k = 0; k < outputs; ++k) {
      y[k] = static_cast<T>(factor * states[k].value);
      if (saved != nullptr) saved[k] = static_cast<int32_t>(states[k].at);
    }
  }

  double Factor(const Shape& x, int64_t outputs) const {
    return FoldFactor(*this, FoldMap(*this, x), outputs);
  }

  template <typename T>
  void WriteGradient(const BackwardArgs& args) const {
    const TensorView& grad = args.input_grads[0];
    const BroadcastMap map = FoldMap(*this, grad.shape());
    const T factor = static_cast<T>(FoldFactor(*this, map, args.output_grads[0].count()));
    const T* x = ReadsInput(operation_) ? args.inputs[0].data<T>() : nullptr;
    const T* saved = SavesValue(operation_) ? args.saved[0].data<T>() : nullptr;
    T* dx = grad.data<T>();
    ParallelFor(args.context.threads(), map.count, kTileGrain,
                [&](int64_t begin, int64_t end, int) {
                  TileReader<T> dy(map, 0, args.output_grads[0].data<T>());
                  TileReader<T> values(map, 0, saved);
                  ForEachTile(map, begin, end, [&](int64_t at, int64_t count) {
                    Unfold(operation_, count, x == nullptr ? nullptr : x + at,
                           values.Read(at, count), dy.Read(at, count), factor, dx + at);
                  });
                });
  }

  // The product of the other elements: y / x, unless x is the only 0.
  template <typename T>
  void ProductGradient(const BackwardArgs& args) const {
    const int64_t outputs = args.output_grads[0].count();
    const BroadcastMap map = FoldMap(*this, args.inputs[0].shape());
    const ProductState* states =
        States<T>(args.context, args.scratch, args.inputs[0], outputs, ProductFold<T>());
    const T* x = args.inputs[0].data<T>();
    const T* dy = args.output_grads[0].data<T>();
    T* dx = args.input_grads[0].data<T>();
    const double factor = param().reduction_param().coeff();
    ParallelFor(
        args.context.threads(), map.count, kTileGrain, [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t k = map.PositionOf(0, i);
            const auto [product, zeros] = states[k];
            const double others =
                x[i] == 0 ? (zeros == 1 ? product : 0) : (zeros > 0 ? 0 : product / double{x[i]});
            dx[i] = static_cast<T>(factor * others * double{dy[k]});
          }
        });
  }

  template <typename T>
  void ScatterGradient(const BackwardArgs& args) const {
    const T* dy = args.output_grads[0].data<T>();
    const int32_t* saved = args.saved[0].data<int32_t>();
    T* dx = args.input_grads[0].data<T>();
    std::fill_n(dx, args.input_grads[0].count(), T(0));
    const T factor = static_cast<T>(param().reduction_param().coeff());
    for (int64_t k = 0; k < args.output_grads[0].count(); ++k) {
      if (saved[k] >= 0) dx[saved[k]] = factor * dy[k];
    }
  }

  const Operation operation_;
};

// Any axes, and the operations that Caffe does not have.
std::vector<LayerSample> MoreSamples() {
  const SampleInput input{.shape = {2, 3, 4, 5}};
  SampleInput kinked = input, distinct = input, positive = input;
  kinked.has_kink = true;
  distinct.distinct = true;
  positive.low = 0.5;
  const auto sample = [](const std::string& name, const std::string& fields, SampleInput x) {
    return LayerSample{
        .name = name, .prototxt = "reduction_param { " + fields + " }", .inputs = {std::move(x)}};
  };
  return {
      sample("sum_first_axis", "axes: 0", input),
      sample("mean_space_kept", "operation: MEAN axes: 2 axes: -1 keep_dims: true", input),
      sample("asum_channels", "operation: ASUM axes: 1 keep_dims: true", kinked),
      sample("sumsq_apart", "operation: SUMSQ axes: 1 axes: 3 coeff: 2", input),
      sample("max", "operation: MAX axis: 1", distinct),
      sample("max_channels", "operation: MAX axes: 1 coeff: -2", distinct),
      sample("min_batch", "operation: MIN axes: 0 keep_dims: true", distinct),
      sample("product", "operation: PROD axis: 2", input),
      sample("product_channels", "operation: PROD axes: 1 coeff: 3", input),
      sample("l2", "operation: L2 axis: 1 coeff: 2", input),
      sample("l2_channels", "operation: L2 axes: 1 keep_dims: true", input),
      sample("log_sum", "operation: LOG_SUM axes: -1 coeff: 2", positive),
      sample("log_sum_exp", "operation: LOG_SUM_EXP axis: 2", input),
      sample("log_sum_exp_channels", "operation: LOG_SUM_EXP axes: 1 axes: 2 coeff: -1", input),
      sample("large_middle", "operation: MEAN axes: 0 axes: 2", {.shape = {5, 1100, 11}}),
      sample("large_last", "operation: LOG_SUM_EXP axes: 1", {.shape = {20, 2003}}),
      sample("large_first", "axes: 0", {.shape = {40, 1201}}),
      sample("large_max", "operation: MAX axes: 1 axes: 2",
             {.shape = {3, 40, 30}, .distinct = true}),
      sample("empty_product", "operation: PROD axis: 1", {.shape = {2, 0}}),
      sample("empty_max", "operation: MAX axis: 1", {.shape = {2, 0}}),
      {.name = "product_of_zeros",
       .prototxt = "reduction_param { operation: PROD axes: 1 }",
       .inputs = {{.shape = {2, 3, 4}, .low = 0, .high = 2, .integer = true}},
       .gradient = false},
  };
}

std::vector<LayerSample> Samples() {
  const SampleInput input{.shape = {2, 3, 4, 5}};
  SampleInput kinked = input;
  kinked.has_kink = true;
  return {
      {.name = "sum", .prototxt = "", .inputs = {input}},
      {.name = "sum_coeff",
       .prototxt = "reduction_param { coeff: -0.5 axis: 1 }",
       .inputs = {input}},
      {.name = "asum",
       .prototxt = "reduction_param { operation: ASUM axis: 1 coeff: 2 }",
       .inputs = {kinked}},
      {.name = "sumsq",
       .prototxt = "reduction_param { operation: SUMSQ axis: -1 coeff: 3 }",
       .inputs = {input}},
      {.name = "mean",
       .prototxt = "reduction_param { operation: MEAN axis: 2 }",
       .inputs = {input}},
      {.name = "mean_all", .prototxt = "reduction_param { operation: MEAN }", .inputs = {input}},
      {.name = "large",
       .prototxt = "reduction_param { operation: SUMSQ }",
       .inputs = {{.shape = {3, 40007}}}},
      {.name = "many_rows",
       .prototxt = "reduction_param { operation: ASUM axis: 1 }",
       .inputs = {{.shape = {4001, 11}, .has_kink = true}}},
      {.name = "empty_rows",
       .prototxt = "reduction_param { operation: MEAN axis: 1 }",
       .inputs = {{.shape = {2, 0}}}},
      {.name = "empty_batch",
       .prototxt = "reduction_param { axis: 1 }",
       .inputs = {{.shape = {0, 3}}}},
  };
}

}  // namespace

void RegisterReduction(Registry& registry) {
  LayerType type;
  type.name = "Reduction";
  type.category = "arithmetic";
  type.summary =
      "Sum, mean, norm, product, largest or smallest value and the like over the last axes or any "
      "others.";
  type.formula = "y = coeff * f(x), f over the axes from `axis` on, or over `axes`";
  type.input_docs = {"x: any shape"};
  type.output_docs = {
      "y: the other axes of x, and the folded ones with size 1 if keep_dims; a scalar for axis 0"};
  type.param_fields = {"reduction_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Reduction>(p); };
  type.samples = Samples();
  for (const LayerSample& sample : MoreSamples()) type.samples.push_back(sample);
  type.bad_samples = {
      {"reduction_param { axis: 2 }", {{2, 3}}, "axis 2 is outside"},
      {"reduction_param { axis: -3 }", {{2, 3}}, "axis -3 is outside"},
      {"", {{}}, "axis 0 is outside"},
      {"reduction_param { axes: 2 }", {{2, 3}}, "axis 2 is outside"},
      {"reduction_param { axes: 1 axes: -1 }", {{2, 3}}, "axes has axis 1 of 2x3 twice"},
      {"reduction_param { axis: 1 axes: 1 }", {{2, 3}}, "axes replaces axis"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
