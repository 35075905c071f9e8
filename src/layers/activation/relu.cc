// ReLU: y = max(x, 0) + slope * min(x, 0), element by element.
// dx = dy where x > 0, slope * dy elsewhere. The sign of y tells the sign of x when slope >= 0, so
// backward reads y then, and the layer may run in place.
#include <cmath>

#include "core/parallel_for.h"
#include "graph/registry.h"
#include "math/vectorize.h"

namespace crema {
namespace {

template <typename T>
inline void ReluForward(const T* x, T* y, int64_t begin, int64_t end, T slope) {
  for (int64_t i = begin; i < end; ++i) y[i] = x[i] > 0 ? x[i] : slope * x[i];
}
CREMA_MULTIVERSION void ForwardLoop(const float* x, float* y, int64_t b, int64_t e, float slope) {
  ReluForward(x, y, b, e, slope);
}
void ForwardLoop(const double* x, double* y, int64_t b, int64_t e, double slope) {
  ReluForward(x, y, b, e, slope);
}

template <typename T>
inline void ReluBackward(const T* sign, const T* dy, T* dx, int64_t begin, int64_t end, T slope) {
  for (int64_t i = begin; i < end; ++i) dx[i] = sign[i] > 0 ? dy[i] : slope * dy[i];
}
CREMA_MULTIVERSION void BackwardLoop(const float* sign, const float* dy, float* dx, int64_t b,
                                     int64_t e, float slope) {
  ReluBackward(sign, dy, dx, b, e, slope);
}
void BackwardLoop(const double* sign, const double* dy, double* dx, int64_t b, int64_t e,
                  double slope) {
  ReluBackward(sign, dy, dx, b, e, slope);
}

constexpr int64_t kGrain = 1 << 14;  // elements that pay for a thread

class ReLU final : public Layer {
 public:
  explicit ReLU(const LayerParameter& param)
      : Layer(param), slope_(param.relu_param().negative_slope()) {
    if (!std::isfinite(slope_)) {
      FailField(*this, "relu_param.negative_slope", "negative_slope is not a finite number");
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    LayerInfo info;
    info.outputs = {context.inputs[0]};
    info.in_place = slope_ >= 0;
    info.backward_reads_output = {slope_ >= 0};
    info.backward_reads_input = {slope_ < 0};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      T* y = args.outputs[0].data<T>();
      ParallelFor(args.context.threads(), args.inputs[0].count(), kGrain,
                  [&](int64_t b, int64_t e, int) { ForwardLoop(x, y, b, e, T(slope_)); });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const ConstTensorView& signs = slope_ >= 0 ? args.outputs[0] : args.inputs[0];
    DispatchFloat(signs.dtype(), [&]<typename T>(T) {
      const T* sign = signs.data<T>();
      const T* dy = args.output_grads[0].data<T>();
      T* dx = args.input_grads[0].data<T>();
      ParallelFor(args.context.threads(), signs.count(), kGrain,
                  [&](int64_t b, int64_t e, int) { BackwardLoop(sign, dy, dx, b, e, T(slope_)); });
    });
  }

 private:
  const float slope_;
};

}  // namespace

void RegisterReLU(Registry& registry) {
  LayerType type;
  type.name = "ReLU";
  type.category = "activation";
  type.summary = "Rectified linear unit, optionally leaky.";
  type.formula = "y = max(x, 0) + negative_slope * min(x, 0)";
  type.input_docs = {"x: any shape"};
  type.output_docs = {"y: the shape of x; may lie where x lies"};
  type.differences = {
      "A negative slope below 0 is not computed in place (the sign of x could not be told from "
      "y)."};
  type.param_fields = {"relu_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const ReLU>(p); };
  const SampleInput input{.shape = {2, 3, 4, 5}, .has_kink = true};
  type.samples = {
      {.name = "plain", .prototxt = "", .inputs = {input}},
      {.name = "leaky", .prototxt = "relu_param { negative_slope: 0.1 }", .inputs = {input}},
      {.name = "negative", .prototxt = "relu_param { negative_slope: -0.5 }", .inputs = {input}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}},
  };
  type.bad_samples = {{.prototxt = "relu_param { negative_slope: nan }",
                       .input_shapes = {{2, 3}},
                       .expect = "negative_slope is not a finite number"}};
  registry.Add(std::move(type));
}

}  // namespace crema
