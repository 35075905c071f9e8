// Softmax: y = exp(x - max x) / sum exp(x - max x) along one axis.
// dx = y * (dy - sum dy * y).
// LogSoftmax: y = x - max x - log sum exp(x - max x); dx = dy - exp y * sum dy.
// Backward reads only y, so the layers may run in place.
#include "math/softmax.h"

#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/activation/softmax_implementations.h"
#include "layers/layer_axis.h"

namespace crema {
namespace {

int AxisOf(const Layer& layer, const Shape& shape) {
  return LayerAxis(layer, shape, layer.param().softmax_param().axis(), "softmax_param.axis");
}

template <bool kLog>
class Softmax final : public Layer {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    LayerInfo info;
    info.outputs = {context.inputs[0]};
    info.reach = ReachFromAxis(AxisOf(*this, context.inputs[0].shape));
    info.in_place = true;
    info.backward_reads_output = {true};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const SoftmaxSize sizes = SoftmaxSizeOf(*this, args.inputs[0].shape());
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const auto forward = kLog ? LogSoftmaxForward<T> : SoftmaxForward<T>;
      forward(args.context.threads(), sizes, args.inputs[0].data<T>(), args.outputs[0].data<T>());
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const SoftmaxSize sizes = SoftmaxSizeOf(*this, args.outputs[0].shape());
    DispatchFloat(args.outputs[0].dtype(), [&]<typename T>(T) {
      const auto backward = kLog ? LogSoftmaxBackward<T> : SoftmaxBackward<T>;
      backward(args.context.threads(), sizes, args.outputs[0].data<T>(),
               args.output_grads[0].data<T>(), args.input_grads[0].data<T>());
    });
  }
};

// Returns the type without name, texts and implementations.
template <bool kLog>
LayerType TypeOf() {
  LayerType type;
  type.category = "activation";
  type.input_docs = {"x: any shape with the axis"};
  type.output_docs = {"y: the shape of x; may share the memory of x"};
  type.param_fields = {"softmax_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Softmax<kLog>>(p); };
  type.samples = {
      {.name = "rows", .prototxt = "", .inputs = {{.shape = {5, 7}, .low = -4, .high = 4}}},
      {.name = "spatial", .prototxt = "", .inputs = {{.shape = {2, 3, 13, 11}}}},
      {.name = "last_axis",
       .prototxt = "softmax_param { axis: -1 }",
       .inputs = {{.shape = {2, 3, 4}}}},
      {.name = "first_axis",
       .prototxt = "softmax_param { axis: 0 }",
       .inputs = {{.shape = {4, 3}}}},
      {.name = "many_rows", .prototxt = "", .inputs = {{.shape = {1501, 9}}}},
      {.name = "many_longer_rows", .prototxt = "", .inputs = {{.shape = {151, 33}}}},
      {.name = "many_classes", .prototxt = "", .inputs = {{.shape = {3, 300}}}},
      {.name = "one_class", .prototxt = "", .inputs = {{.shape = {3, 1}}}},
      {.name = "no_class", .prototxt = "", .inputs = {{.shape = {3, 0, 2}}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}},
  };
  type.bad_samples = {
      {"", {{4}}, "axis 1 is outside"},
      {"softmax_param { axis: -3 }", {{4, 2}}, "axis -3 is outside"},
  };
  return type;
}

}  // namespace

SoftmaxSize SoftmaxSizeOf(const Layer& softmax, const Shape& input) {
  const int axis = AxisOf(softmax, input);
  return {input.count(0, axis), input[axis], input.count(axis + 1)};
}

void RegisterSoftmax(Registry& registry) {
  LayerType type = TypeOf<false>();
  type.name = "Softmax";
  type.summary = "Converts scores to probabilities that sum to 1 along an axis.";
  type.formula = "y_i = exp(x_i) / sum_j exp(x_j)";
#ifdef CREMA_HAVE_ONEDNN
  type.implementations = {OneDnnSoftmaxImplementation()};
#endif
  registry.Add(std::move(type));
}

void RegisterLogSoftmax(Registry& registry) {
  LayerType type = TypeOf<true>();
  type.name = "LogSoftmax";
  type.summary = "The logarithm of Softmax, without its rounding and underflow.";
  type.formula = "y_i = x_i - log(sum_j exp(x_j))";
  type.origin = "Crema";
  registry.Add(std::move(type));
}

}  // namespace crema
