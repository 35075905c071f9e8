// OneHot: y[o, c, i] = on_value where index[o, i] = c, off_value elsewhere. The new axis has the
// size depth; negative indices count from its end, and an index outside gives off_value alone. This
// is OneHot of ONNX.
#include "layers/arithmetic/one_hot.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/layer_axis.h"
#include "layers/layer_number.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 14;  // minimum elements per thread

class OneHot final : public Layer {
 public:
  explicit OneHot(const LayerParameter& param) : Layer(param) {
    const OneHotParameter& hot = param.one_hot_param();
    if (!hot.has_depth()) {
      FailField(*this, "one_hot_param.depth", "depth, the size of the new axis, is missing");
    }
    if (hot.depth() < 1) {
      FailField(*this, "one_hot_param.depth",
                StrCat("depth must be above 0, but it is ", hot.depth()));
    }
    FiniteNumber(*this, hot.on_value(), "one_hot_param.on_value");
    FiniteNumber(*this, hot.off_value(), "one_hot_param.off_value");
  }

  LayerInfo Infer(const InferContext& context) const override {
    const OneHotParameter& hot = param().one_hot_param();
    const Shape& index = context.inputs[0].shape;
    if (index.axes() == Shape::kMaxAxes) {
      FailInputs(*this, StrCat("the input has ", Shape::kMaxAxes, " axes; there is no more room"));
    }
    // The new axis is one of those of the output.
    std::vector<int64_t> dims(index.dims().begin(), index.dims().end());
    dims.push_back(1);
    const int axis =
        LayerAxis(*this, Shape(std::span<const int64_t>(dims)), hot.axis(), "one_hot_param.axis");
    dims.pop_back();
    dims.insert(dims.begin() + axis, hot.depth());
    LayerInfo info;
    info.outputs = {{Shape(std::span<const int64_t>(dims)), context.inputs[0].dtype}};
    info.reach = ReachFromAxis(axis);
    info.gradient_forbidden = {true};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const OneHotParameter& hot = param().one_hot_param();
    const Shape& y = args.outputs[0].shape();
    const int64_t inner = OneHotInner(*this, y);
    const int64_t depth = hot.depth();
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* index = args.inputs[0].data<T>();
      T* to = args.outputs[0].data<T>();
      const auto on = static_cast<T>(hot.on_value()), off = static_cast<T>(hot.off_value());
      ParallelFor(args.context.threads(), args.inputs[0].count(),
                  std::max<int64_t>(1, kGrain / depth), [&](int64_t begin, int64_t end, int) {
                    for (int64_t i = begin; i < end; ++i) {
                      T* line = to + i / inner * depth * inner + i % inner;
                      for (int64_t c = 0; c < depth; ++c) line[c * inner] = off;
                      const int64_t hot_class = OneHotClass(index[i], depth);
                      if (hot_class >= 0) line[hot_class * inner] = on;
                    }
                  });
    });
  }
};

}  // namespace

int64_t OneHotInner(const Layer& layer, const Shape& y) {
  return y.count(y.CanonicalAxis(layer.param().one_hot_param().axis()) + 1);
}

void RegisterOneHot(Registry& registry) {
  LayerType type;
  type.name = "OneHot";
  type.category = "arithmetic";
  type.summary = "Turns indices into one-hot vectors along a new axis.";
  type.formula = "y[o, c, i] = on_value if index[o, i] = c, else off_value. It is OneHot of ONNX";
  type.input_docs = {
      "index: 0..depth-1, negative ones from the end; fractions are cut off, and other values give "
      "off_value. Any shape; receives no gradient"};
  type.output_docs = {"y: the shape of the index with the new axis"};
  type.origin = "Crema";
  type.param_fields = {"one_hot_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const OneHot>(p); };
  const auto sample = [](std::string name, const std::string& fields, std::vector<int64_t> shape) {
    return LayerSample{
        .name = std::move(name),
        .prototxt = "one_hot_param { " + fields + " }",
        .inputs = {{.shape = std::move(shape), .low = -6, .high = 5, .integer = true}},
        .gradient = false};
  };
  type.samples = {
      sample("last", "depth: 5", {4, 3}),
      sample("middle", "depth: 4 axis: 1", {3, 5}),
      sample("first", "depth: 6 axis: 0", {7}),
      sample("values", "depth: 5 on_value: 0.5 off_value: -2", {4, 3}),
      sample("scalar", "depth: 3", {}),
      sample("large", "depth: 70 axis: 1", {30, 40}),
      sample("empty_batch", "depth: 3", {0, 2}),
  };
  type.bad_samples = {
      {"", {{2}}, "is missing"},
      {"one_hot_param { depth: 0 }", {{2}}, "it is 0"},
      {"one_hot_param { depth: 3 axis: 2 }", {{2}}, "axis 2 is outside"},
      {"one_hot_param { depth: 3 on_value: nan }", {{2}}, "expected a finite number"},
      {"one_hot_param { depth: 3 off_value: inf }", {{2}}, "expected a finite number"},
      {"one_hot_param { depth: 3 }", {std::vector<int64_t>(32, 1)}, "no more room"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
