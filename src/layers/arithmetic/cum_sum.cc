// CumSum: y[i] = x[0] + .. + x[i] along one axis; `exclusive` leaves x[i] out, `reverse` sums from
// the end. dx is the same sum of dy from the other end. This is CumSum of ONNX.
#include "layers/arithmetic/cum_sum.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/parallel_for.h"
#include "graph/registry.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 12;  // minimum elements per thread

template <typename T>
void SumLines(int threads, const CumSumLines& lines, const T* x, T* y) {
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, lines.size));
  ParallelFor(threads, lines.count, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t line = begin; line < end; ++line) {
      double sum = 0;
      for (int64_t i = 0; i < lines.size; ++i) {
        const int64_t at = lines.At(line, i);
        const double before = sum;
        sum += x[at];
        y[at] = static_cast<T>(lines.exclusive ? before : sum);
      }
    }
  });
}

class CumSum final : public Layer {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    const CumSumLines lines(*this, context.inputs[0].shape, false);
    LayerInfo info;
    info.outputs = {context.inputs[0]};
    info.reach = ReachFromAxis(lines.axis);
    info.in_place = true;
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    Sum(args.context, false, args.inputs[0], args.outputs[0]);
  }
  void Backward(const BackwardArgs& args) const override {
    Sum(args.context, true, args.output_grads[0], args.input_grads[0]);
  }

 private:
  void Sum(const ExecContext& context, bool backward, const ConstTensorView& from,
           const TensorView& to) const {
    const CumSumLines lines(*this, to.shape(), backward);
    DispatchFloat(to.dtype(), [&]<typename T>(T) {
      SumLines(context.threads(), lines, from.data<T>(), to.data<T>());
    });
  }
};

}  // namespace

void RegisterCumSum(Registry& registry) {
  LayerType type;
  type.name = "CumSum";
  type.category = "arithmetic";
  type.summary = "Running sums along one axis.";
  type.formula =
      "y[i] = x[0] + x[1] + .. + x[i]; exclusive: up to x[i - 1]; reverse: from the other end. It "
      "is "
      "CumSum of ONNX";
  type.input_docs = {"x: any shape with the axis"};
  type.output_docs = {"y: the shape of x"};
  type.origin = "Crema";
  type.param_fields = {"cum_sum_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const CumSum>(p); };
  const auto sample = [](std::string name, const std::string& fields, std::vector<int64_t> shape) {
    return LayerSample{.name = std::move(name),
                       .prototxt = "cum_sum_param { " + fields + " }",
                       .inputs = {{.shape = std::move(shape)}}};
  };
  type.samples = {
      sample("middle", "axis: 1", {2, 5, 3}),
      sample("first", "", {4, 3}),
      sample("exclusive", "axis: -1 exclusive: true", {2, 6}),
      sample("reverse", "axis: 1 reverse: true", {2, 5, 3}),
      sample("exclusive_reverse", "axis: 1 exclusive: true reverse: true", {2, 5, 3}),
      sample("large", "axis: 1", {3, 2001, 5}),
      sample("vector", "", {700}),
      sample("empty_batch", "axis: 1", {0, 3}),
      sample("empty_axis", "axis: 1", {2, 0}),
  };
  type.bad_samples = {
      {"cum_sum_param { axis: 2 }", {{2, 6}}, "axis 2 is outside"},
      {"", {{}}, "axis 0 is outside"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
