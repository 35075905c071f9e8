// InnerProduct: Y = X W^T + b, where X is the input as a matrix: axes before `axis` are rows, the
// rest are columns. W is (num_output, columns), or (columns, num_output) with `transpose`.
// dX = dY W, dW = dY^T X, db = column sums of dY.
// A fused ReLU is applied to the output; backward then takes the mask from the output.
#include "layers/arithmetic/inner_product.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/arithmetic/inner_product_implementations.h"
#include "layers/blocked_input.h"
#include "layers/layer_axis.h"
#include "math/gemm.h"
#include "math/scratch.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 15;  // minimum weights per thread

// Computes one row, as a matrix times a vector; threads take parts of the outputs.
template <typename T>
void ForwardOnGpu(int threads, bool transpose, int64_t n, int64_t k, const T* x, const T* weight,
                  T* y) {
  if (transpose) {
    Gemv<T>(true, k, n, T(1), weight, x, T(0), y);
    return;
  }
  ParallelFor(threads, n, std::max<int64_t>(1, kGrain / k), [&](int64_t begin, int64_t end, int) {
    Gemv<T>(false, end - begin, k, T(1), weight + begin * k, x, T(0), y + begin);
  });
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

// Holds the gradient masked by the fused ReLU.
size_t InnerProduct::BackwardScratch(const InferContext& context, const LayerInfo& info,
                                     int) const {
  if (!info.backward_reads_output[0]) return 0;
  const int64_t count = info.outputs[0].shape.count();
  return kScratchSlack +
         (context.dtype == DType::kF32 ? ScratchBytes<float>(count) : ScratchBytes<double>(count));
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
  const Shape& input = args.inputs[0].shape();
  const int64_t m = input.count(0, Axis(input)), k = input.count(Axis(input));
  const int64_t n = ip_.num_output();
  DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const T* x = args.inputs[0].data<T>();
    const T* weight = args.parameters[0].data<T>();
    T* y = args.outputs[0].data<T>();
    if (m == 1) {
      ForwardOnGpu<T>(args.context.threads(), ip_.transpose(), n, k, x, weight, y);
    } else {
      Gemm<T>(args.context.threads(), false, !ip_.transpose(), m, n, k, T(1), x, k, weight,
              ip_.transpose() ? n : k, T(0), y, n);
    }
    const T* bias = ip_.bias_term() ? args.parameters[1].data<T>() : nullptr;
    const FusedRelu relu = ReluOf(*this, args.fused);
    if (bias != nullptr || relu.on) AddColumnBiasRelu<T>(m, n, bias, relu, y);
  });
}

void InnerProduct::Backward(const BackwardArgs& args) const {
  const Shape& input = args.inputs[0].shape();
  const int64_t m = input.count(0, Axis(input)), k = input.count(Axis(input));
  const int64_t n = ip_.num_output();
  const bool transpose = ip_.transpose();
  DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const int threads = args.context.threads();
    const T* x = args.inputs[0].data<T>();
    const T* dy = args.output_grads[0].data<T>();
    if (const FusedRelu relu = ReluOf(*this, args.fused); relu.on) {
      T* masked = ScratchCutter(args.scratch).Take<T>(m * n);
      MaskByOutput<T>(m * n, relu.slope, args.outputs[0].data<T>(), dy, masked);
      dy = masked;
    }
    if (!args.parameter_grads[0].empty()) {
      T* dweight = args.parameter_grads[0].data<T>();
      if (transpose) {
        Gemm<T>(threads, true, false, k, n, m, T(1), x, k, dy, n, T(1), dweight, n);
      } else {
        Gemm<T>(threads, true, false, n, k, m, T(1), dy, n, x, k, T(1), dweight, k);
      }
    }
    if (ip_.bias_term() && !args.parameter_grads[1].empty()) {
      AddColumnSums<T>(m, n, dy, args.parameter_grads[1].data<T>());
    }
    if (!args.input_grads[0].empty()) {
      Gemm<T>(threads, false, transpose, m, k, n, T(1), dy, n, args.parameters[0].data<T>(),
              transpose ? n : k, T(0), args.input_grads[0].data<T>(), k);
    }
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
