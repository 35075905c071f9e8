// InnerProduct: Y = X W^T + b, where X is the input as a matrix: axes before `axis` are rows, the
// rest are columns. W is (num_output, columns), or (columns, num_output) with `transpose`.
// dX = dY W, dW = dY^T X, db = column sums of dY.
// A fused ReLU is applied to the output; backward then takes the mask from the output.
#include "layers/arithmetic/inner_product.h"

#include <memory>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/arithmetic/inner_product_implementations.h"
#include "layers/blocked_input.h"
#include "layers/layer_axis.h"

namespace crema {
namespace {

template <typename T>
T* DataOrNull(const TensorView& view) {
  return view.empty() ? nullptr : view.data<T>();
}

}  // namespace

InnerProduct::InnerProduct(const LayerParameter& param)
    : Layer(param), ip_(this->param().inner_product_param()) {
  if (ip_.num_output() == 0) {
    FailField(*this, "inner_product_param.num_output",
              "num_output is missing or 0; it is the number of outputs");
  }
  if (ip_.relu() && !(ip_.negative_slope() >= 0)) {
    FailField(*this, "inner_product_param.negative_slope",
              "negative_slope of the ReLU must be 0 or more");
  }
  if (!(param.fused_relu_param().negative_slope() >= 0)) {
    FailField(*this, "fused_relu_param.negative_slope",
              "negative_slope of a fused ReLU must be 0 or more");
  }
}

int InnerProduct::Axis(const Shape& input) const {
  return LayerAxis(*this, input, ip_.axis(), "inner_product_param.axis");
}

InnerProductSize InnerProduct::SizeOf(const Shape& input) const {
  const int axis = Axis(input);
  return {input.count(0, axis), input.count(axis), ip_.num_output(), ip_.transpose()};
}

size_t InnerProduct::BackwardScratch(const InferContext& context, const LayerInfo& info,
                                     int) const {
  const InnerProductSize size = SizeOf(context.inputs[0].shape);
  const FusedRelu relu{.on = info.backward_reads_output[0]};
  return context.dtype == DType::kF32 ? InnerProductBackwardScratch<float>(size, relu)
                                      : InnerProductBackwardScratch<double>(size, relu);
}

LayerInfo InnerProduct::Infer(const InferContext& context) const {
  const Shape& input = context.inputs[0].shape;
  const int axis = Axis(input);
  const int64_t columns = input.count(axis);
  const int64_t outputs = ip_.num_output();
  if (columns == 0) {
    FailInputs(*this, StrCat("the input of shape ", ToString(input), " has no elements from axis ",
                             axis, " on"));
  }
  std::vector<int64_t> dims(input.dims().begin(), input.dims().begin() + axis);
  dims.push_back(outputs);
  LayerInfo info;
  info.outputs = {{Shape(std::span<const int64_t>(dims)), context.inputs[0].dtype}};
  info.reach = ReachFromAxis(axis);
  info.parameters.push_back({"weight",
                             ip_.transpose() ? Shape{columns, outputs} : Shape{outputs, columns},
                             ip_.weight_filler()});
  if (ip_.bias_term()) info.parameters.push_back({"bias", Shape{outputs}, ip_.bias_filler()});
  info.backward_reads_input = {true};
  info.backward_reads_output = {ReluOf(*this, {}).on};
  info.macs = input.count() * outputs;
  return info;
}

void InnerProduct::Forward(const ForwardArgs& args) const {
  DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    InnerProductForward<T>(args.context.threads(), SizeOf(args.inputs[0].shape()),
                           args.inputs[0].data<T>(), args.parameters[0].data<T>(),
                           ip_.bias_term() ? args.parameters[1].data<T>() : nullptr,
                           ReluOf(*this, args.fused), args.outputs[0].data<T>());
  });
}

void InnerProduct::Backward(const BackwardArgs& args) const {
  DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const FusedRelu relu = ReluOf(*this, args.fused);
    ProductGrads<T> grads;
    grads.x = args.inputs[0].data<T>();
    grads.y = relu.on ? args.outputs[0].data<T>() : nullptr;
    grads.dy = args.output_grads[0].data<T>();
    grads.weight = args.parameters[0].data<T>();
    grads.dx = DataOrNull<T>(args.input_grads[0]);
    grads.dweight = DataOrNull<T>(args.parameter_grads[0]);
    grads.dbias = ip_.bias_term() ? DataOrNull<T>(args.parameter_grads[1]) : nullptr;
    InnerProductBackward<T>(args.context.threads(), SizeOf(args.inputs[0].shape()), relu, grads,
                            args.scratch);
  });
}

namespace {

LayerSample Sample(std::string name, const std::string& fields, std::vector<int64_t> shape,
                   const std::string& more = "") {
  LayerSample sample;
  sample.name = std::move(name);
  sample.prototxt = "inner_product_param { " + fields +
                    " weight_filler { type: \"gaussian\" std: 0.5 }"
                    " bias_filler { type: \"uniform\" min: -1 max: 1 } } " +
                    more;
  sample.inputs = {{.shape = std::move(shape)}};
  return sample;
}

}  // namespace

void RegisterInnerProduct(Registry& registry) {
  LayerType type;
  type.name = "InnerProduct";
  type.traits = {.fits_16_bits = true, .multiplies_matrices = true, .computes_on_bytes = true};
  type.category = "arithmetic";
  type.summary = "Fully connected: every output is a weighted sum of all inputs.";
  type.formula = "y = x W^T + b";
  type.input_docs = {"x: M rows of K elements: the axes before `axis`, and those from it on"};
  type.output_docs = {"y: the axes of x before `axis`, then num_output"};
  type.parameter_docs = {"weight: num_output x K; K x num_output with `transpose`",
                         "bias: num_output; only with bias_term"};
  type.differences = {
      "The weights of a file must have as many elements as the layer's; Caffe does not check.",
      "relu and negative_slope are IntelCaffe's fused ReLU."};
  type.param_fields = {"inner_product_param", "fused_relu_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const InnerProduct>(p); };
#ifdef CREMA_HAVE_ONEDNN
  type.implementations = OneDnnInnerProductImplementations();
  type.implementations.insert(type.implementations.begin(), BFloat16InnerProductImplementation());
  const std::vector<ImplementationPtr> int8 = Int8InnerProductImplementations();
  type.implementations.insert(type.implementations.begin(), int8.begin(), int8.end());
#endif
  const ImplementationPtr native = NativeWithRelu();
  type.implementations.push_back(OnBlockedInput(native, "blocked input"));
  type.implementations.push_back(native);
  type.samples = {
      Sample("plain", "num_output: 5", {3, 4}),
      Sample("image", "num_output: 4", {2, 3, 2, 2}),
      Sample("one_row", "num_output: 6", {1, 7}),
      Sample("transpose", "num_output: 3 transpose: true", {2, 5}),
      Sample("transpose_one_row", "num_output: 3 transpose: true", {1, 5}),
      Sample("axis_0", "num_output: 3 axis: 0", {2, 3}),
      Sample("negative_axis", "num_output: 3 axis: -1", {2, 3, 4}),
      Sample("no_bias", "num_output: 3 bias_term: false", {3, 4}),
      Sample("relu", "num_output: 6", {3, 5}, "fused_relu_param {}"),
      Sample("leaky_relu", "num_output: 6 bias_term: false", {3, 5},
             "fused_relu_param { negative_slope: 0.25 }"),
      Sample("intel_relu", "num_output: 6 relu: true negative_slope: 0.5", {3, 5}),
      Sample("intel_relu_and_fused", "num_output: 6 relu: true negative_slope: 0.5", {3, 5},
             "fused_relu_param { negative_slope: 0.5 }"),
      Sample("empty_batch", "num_output: 3", {0, 4}),
  };
  type.bad_samples = {
      {"", {{2, 3}}, "num_output is missing"},
      {"inner_product_param { num_output: 3 axis: 2 }", {{2, 3}}, "axis 2"},
      {"inner_product_param { num_output: 3 }", {{2, 0}}, "no elements"},
      {"inner_product_param { num_output: 3 relu: true negative_slope: -1 }",
       {{2, 3}},
       "must be 0 or more"},
      {"inner_product_param { num_output: 3 } fused_relu_param { negative_slope: -1 }",
       {{2, 3}},
       "fused ReLU"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
