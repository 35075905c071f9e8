// Sigmoid: y = 1 / (1 + exp(-x)), element by element.
// dx = dy * y * (1 - y): backward reads y alone, so the layer may run in place.
#include <cmath>

#include "core/parallel_for.h"
#include "graph/registry.h"
#include "math/vectorize.h"

namespace crema {
namespace {

template <typename T>
inline void SigmoidBackward(const T* y, const T* dy, T* dx, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) dx[i] = dy[i] * (y[i] * (T(1) - y[i]));
}
CREMA_MULTIVERSION void BackwardLoop(const float* y, const float* dy, float* dx, int64_t b,
                                     int64_t e) {
  SigmoidBackward(y, dy, dx, b, e);
}
void BackwardLoop(const double* y, const double* dy, double* dx, int64_t b, int64_t e) {
  SigmoidBackward(y, dy, dx, b, e);
}

constexpr int64_t kForwardGrain = 1 << 11;  // elements that pay for a thread; exp is slow
constexpr int64_t kBackwardGrain = 1 << 14;

class Sigmoid final : public Layer {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    LayerInfo info;
    info.outputs = {context.inputs[0]};
    info.in_place = true;
    info.backward_reads_output = {true};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      T* y = args.outputs[0].data<T>();
      ParallelFor(args.context.threads(), args.inputs[0].count(), kForwardGrain,
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t i = begin; i < end; ++i) y[i] = T(1) / (T(1) + std::exp(-x[i]));
                  });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    DispatchFloat(args.outputs[0].dtype(), [&]<typename T>(T) {
      const T* y = args.outputs[0].data<T>();
      const T* dy = args.output_grads[0].data<T>();
      T* dx = args.input_grads[0].data<T>();
      ParallelFor(args.context.threads(), args.outputs[0].count(), kBackwardGrain,
                  [&](int64_t b, int64_t e, int) { BackwardLoop(y, dy, dx, b, e); });
    });
  }
};

}  // namespace

void RegisterSigmoid(Registry& registry) {
  LayerType type;
  type.name = "Sigmoid";
  type.category = "activation";
  type.summary = "Logistic function.";
  type.formula = "y = 1 / (1 + exp(-x))";
  type.param_fields = {"sigmoid_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Sigmoid>(p); };
  type.samples = {
      {.name = "plain", .prototxt = "", .inputs = {{.shape = {2, 3, 4, 5}, .low = -4, .high = 4}}},
      {.name = "large", .prototxt = "", .inputs = {{.shape = {3, 6007}}}},
      {.name = "scalar", .prototxt = "", .inputs = {{.shape = {}}}},
      {.name = "engine_hint",
       .prototxt = "sigmoid_param { engine: CAFFE }",
       .inputs = {{.shape = {1, 7}}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
