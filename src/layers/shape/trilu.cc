// Trilu: the upper or lower triangle of matrices, which are the last two axes; the other elements
// are 0. The gradient is the same triangle of that of y. This is Trilu of ONNX.
#include "layers/shape/trilu.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "graph/registry.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 14;  // minimum elements per thread

class Trilu final : public Layer {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& x = context.inputs[0].shape;
    if (x.axes() < 2) {
      FailInputs(*this, StrCat("the input needs 2 or more axes, but it is ", ToString(x)));
    }
    LayerInfo info;
    info.outputs = {context.inputs[0]};
    info.reach = ReachFromAxis(x.axes() - 2);
    info.moves_only = true;
    info.in_place = true;
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    Cut(args.context, args.inputs[0], args.outputs[0]);
  }
  void Backward(const BackwardArgs& args) const override {
    Cut(args.context, args.output_grads[0], args.input_grads[0]);
  }

 private:
  void Cut(const ExecContext& context, const ConstTensorView& from, const TensorView& to) const {
    if (to.count() == 0) return;
    const Triangle triangle(*this, to.shape());
    const int64_t columns = triangle.columns;
    DispatchFloat(to.dtype(), [&]<typename T>(T) {
      ParallelFor(context.threads(), to.count() / columns, std::max<int64_t>(1, kGrain / columns),
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t row = begin; row < end; ++row) {
                      const int64_t border = triangle.Border(row % triangle.rows);
                      const T* x = from.data<T>() + row * columns;
                      T* y = to.data<T>() + row * columns;
                      const int64_t first = triangle.upper ? border : 0;
                      const int64_t last = triangle.upper ? columns : border;
                      if (x != y) std::copy(x + first, x + last, y + first);
                      std::fill(y, y + first, T(0));
                      std::fill(y + last, y + columns, T(0));
                    }
                  });
    });
  }
};

}  // namespace

void RegisterTrilu(Registry& registry) {
  LayerType type;
  type.name = "Trilu";
  type.traits = {.fits_16_bits = true};
  type.category = "shape";
  type.summary = "Keeps the upper or the lower triangle of matrices.";
  type.formula =
      "y[i, j] = x[i, j] if j >= i + k (upper) or j <= i + k, else 0. It is Trilu of ONNX";
  type.input_docs = {"x: 2 or more axes; the last two are rows and columns"};
  type.output_docs = {"y: the shape of x"};
  type.origin = "Crema";
  type.param_fields = {"trilu_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Trilu>(p); };
  const auto sample = [](std::string name, const std::string& fields, std::vector<int64_t> shape) {
    return LayerSample{.name = std::move(name),
                       .prototxt = "trilu_param { " + fields + " }",
                       .inputs = {{.shape = std::move(shape)}}};
  };
  type.samples = {
      sample("upper", "", {2, 4, 5}),
      sample("lower", "upper: false", {2, 4, 5}),
      sample("upper_right", "k: 2", {2, 3, 4, 4}),
      sample("upper_left", "k: -1", {2, 5, 3}),
      sample("lower_right", "upper: false k: 1", {2, 4, 6}),
      sample("lower_left", "upper: false k: -2", {2, 4, 3}),
      sample("all", "k: -9223372036854775808", {2, 3, 3}),
      sample("nothing", "k: 9223372036854775807", {2, 3, 3}),
      sample("matrix", "", {4, 4}),
      sample("large", "upper: false", {3, 150, 130}),
      sample("empty_batch", "", {0, 3, 3}),
      sample("empty", "", {2, 3, 0}),
  };
  type.bad_samples = {{"", {{3}}, "2 or more axes"}};
  registry.Add(std::move(type));
}

}  // namespace crema
