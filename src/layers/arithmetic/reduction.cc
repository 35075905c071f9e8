// Reduction: folds the axes from `axis` on into one value.
//   SUM:   y = c * sum x      dx = c * dy
//   ASUM:  y = c * sum |x|    dx = c * sign(x) * dy
//   SUMSQ: y = c * sum x^2    dx = 2 * c * x * dy
//   MEAN:  y = c * mean x     dx = c / n * dy
// Sums are computed in f64.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/layer_axis.h"
#include "math/reduce.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 14;  // minimum elements per thread

// Uses several running sums, so that an addition need not wait for the previous one.
template <typename T, typename Term>
double SumOf(const T* x, int64_t count, Term&& term) {
  constexpr int64_t kLanes = 8;
  std::array<double, kLanes> lanes{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t k = 0; k < kLanes; ++k) lanes[static_cast<size_t>(k)] += term(x[i + k]);
  }
  for (; i < count; ++i) lanes[0] += term(x[i]);
  return std::accumulate(lanes.begin(), lanes.end(), 0.0);
}

template <typename T>
double Fold(ReductionParameter::ReductionOp operation, const T* x, int64_t count) {
  switch (operation) {
    case ReductionParameter::ASUM:
      return SumOf(x, count, [](double v) { return std::abs(v); });
    case ReductionParameter::SUMSQ:
      return SumOf(x, count, [](double v) { return v * v; });
    default:
      return SumOf(x, count, [](double v) { return v; });
  }
}

// Computes dx of one folded row. `scale` is coefficient times dy.
template <typename T>
void Unfold(ReductionParameter::ReductionOp operation, const T* x, T scale, T* dx, int64_t count) {
  switch (operation) {
    case ReductionParameter::ASUM:
      for (int64_t i = 0; i < count; ++i) dx[i] = scale * T((x[i] > 0) - (x[i] < 0));
      return;
    case ReductionParameter::SUMSQ:
      for (int64_t i = 0; i < count; ++i) dx[i] = 2 * scale * x[i];
      return;
    default:
      std::fill_n(dx, count, scale);
  }
}

class Reduction final : public Layer {
 public:
  explicit Reduction(const LayerParameter& param)
      : Layer(param), operation_(param.reduction_param().operation()) {}

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    const auto axis = static_cast<size_t>(Axis(shape));
    LayerInfo info;
    info.outputs = {{Shape(shape.dims().first(axis)), context.inputs[0].dtype}};
    info.reach = ReachFromAxis(static_cast<int>(axis));
    // SUM and MEAN need only the shape of x, which the gradient has too.
    info.backward_reads_input = {ReadsInput()};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const Sizes sizes = SizesOf(args.inputs[0].shape());
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      T* y = args.outputs[0].data<T>();
      const int threads = args.context.threads();
      const double factor = Factor(sizes);
      if (sizes.rows == 1) {
        y[0] = static_cast<T>(
            factor * OrderedSum(threads, sizes.length, kGrain, [&](int64_t begin, int64_t end) {
              return Fold(operation_, x + begin, end - begin);
            }));
        return;
      }
      ParallelFor(threads, sizes.rows, RowGrain(sizes), [&](int64_t begin, int64_t end, int) {
        for (int64_t r = begin; r < end; ++r) {
          y[r] = static_cast<T>(factor * Fold(operation_, x + r * sizes.length, sizes.length));
        }
      });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const TensorView& input_grad = args.input_grads[0];
    const Sizes sizes = SizesOf(input_grad.shape());
    DispatchFloat(input_grad.dtype(), [&]<typename T>(T) {
      const T* x = ReadsInput() ? args.inputs[0].data<T>() : nullptr;
      const T* dy = args.output_grads[0].data<T>();
      T* dx = input_grad.data<T>();
      // Takes pieces of the whole blob, which may begin and end within a row.
      ParallelFor(args.context.threads(), input_grad.count(), kGrain,
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t at = begin; at < end;) {
                      const int64_t row = at / sizes.length;
                      const int64_t stop = std::min(end, (row + 1) * sizes.length);
                      Unfold(operation_, x == nullptr ? nullptr : x + at,
                             static_cast<T>(Factor(sizes)) * dy[row], dx + at, stop - at);
                      at = stop;
                    }
                  });
    });
  }

 private:
  struct Sizes {
    int64_t rows;
    int64_t length;
  };

  bool ReadsInput() const {
    return operation_ == ReductionParameter::ASUM || operation_ == ReductionParameter::SUMSQ;
  }

  int Axis(const Shape& shape) const {
    return LayerAxis(*this, shape, param().reduction_param().axis(), "reduction_param.axis");
  }

  Sizes SizesOf(const Shape& shape) const {
    const int axis = Axis(shape);
    return {shape.count(0, axis), shape.count(axis)};
  }

  static int64_t RowGrain(const Sizes& sizes) {
    return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, sizes.length));
  }

  // Returns the factor of the sum. The mean of no elements is 0.
  double Factor(const Sizes& sizes) const {
    const double coeff = param().reduction_param().coeff();
    if (operation_ != ReductionParameter::MEAN) return coeff;
    return coeff / static_cast<double>(std::max<int64_t>(1, sizes.length));
  }

  const ReductionParameter::ReductionOp operation_;
};

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
  type.summary = "Sum, sum of magnitudes, sum of squares or mean over the last axes.";
  type.formula = "y = coeff * f(x) over the axes from `axis` on, f: SUM, ASUM, SUMSQ, MEAN";
  type.input_docs = {"x: any shape"};
  type.output_docs = {"y: the axes of x before `axis`; a scalar for axis 0"};
  type.param_fields = {"reduction_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Reduction>(p); };
  type.samples = Samples();
  type.bad_samples = {
      {"reduction_param { axis: 2 }", {{2, 3}}, "axis 2 is outside"},
      {"reduction_param { axis: -3 }", {{2, 3}}, "axis -3 is outside"},
      {"", {{}}, "axis 0 is outside"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
