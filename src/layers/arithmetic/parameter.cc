// Parameter: y = a parameter. Its gradient is that of y.
#include <memory>
#include <vector>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "math/vectorize.h"

namespace crema {
namespace {

class Parameter final : public Layer {
 public:
  explicit Parameter(const LayerParameter& param)
      : Layer(param), shape_(Checked(param.parameter_param())) {}

  LayerInfo Infer(const InferContext& context) const override {
    LayerInfo info;
    info.outputs = {{shape_, context.dtype}};
    info.constant = true;
    info.parameters = {{.role = "value", .shape = shape_}};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    DispatchFloat(args.outputs[0].dtype(), [&]<typename T>(T) {
      std::ranges::copy(args.parameters[0].span<T>(), args.outputs[0].data<T>());
    });
  }

  void Backward(const BackwardArgs& args) const override {
    if (args.parameter_grads[0].empty()) return;
    DispatchFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
      const T* dy = args.output_grads[0].data<T>();
      T* sum = args.parameter_grads[0].data<T>();
      for (int64_t i = 0; i < shape_.count(); ++i) sum[i] += dy[i];
    });
  }

 private:
  Shape Checked(const ParameterParameter& param) const {
    const std::string field = "parameter_param.shape";
    if (!param.has_shape()) FailField(*this, field, "shape is missing; {} is a scalar");
    try {
      const auto& dims = param.shape().dim();
      return Shape(std::vector<int64_t>(dims.begin(), dims.end()));
    } catch (const Error& error) {
      FailField(*this, field, error.problems().front().message);
    }
  }

  const Shape shape_;
};

}  // namespace

void RegisterParameter(Registry& registry) {
  LayerType type;
  type.name = "Parameter";
  type.category = "arithmetic";
  type.summary = "A parameter blob as a top, for layers that take their weights as bottoms.";
  type.formula = "y = value";
  type.output_docs = {"y: parameter_param.shape"};
  type.parameter_docs = {"value: parameter_param.shape, zeros at first"};
  type.differences = {"A missing shape is an error; Caffe makes a scalar."};
  type.param_fields = {"parameter_param"};
  type.inputs = {0, 0};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Parameter>(p); };
  type.samples = {
      {.name = "matrix", .prototxt = "parameter_param { shape { dim: 3 dim: 4 } }", .inputs = {}},
      {.name = "scalar", .prototxt = "parameter_param { shape {} }", .inputs = {}},
      {.name = "empty", .prototxt = "parameter_param { shape { dim: 0 } }", .inputs = {}},
  };
  type.bad_samples = {
      {"", {}, "shape is missing"},
      {"parameter_param { shape { dim: -1 } }", {}, "-1"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
