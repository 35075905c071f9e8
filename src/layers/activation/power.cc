// Power: y = (shift + scale * x) ^ power, element by element. If power * scale is 0, the output is
// a constant: 1 for power 0, else shift ^ power.
// dx = dy * power * scale * (shift + scale * x) ^ (power - 1). Caffe computes the last factor as y
// divided by its base, which is NaN where the base is 0; elsewhere the results are equal.
#include <algorithm>
#include <cmath>

#include "core/parallel_for.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/activation/formulas.h"
#include "math/vectorize.h"

namespace crema {
namespace {

template <typename T>
inline void LinearLoop(const T* x, T* y, int64_t begin, int64_t end, T scale, T shift) {
  for (int64_t i = begin; i < end; ++i) y[i] = scale * x[i] + shift;
}
CREMA_MULTIVERSION void Linear(const float* x, float* y, int64_t b, int64_t e, float scale,
                               float shift) {
  LinearLoop(x, y, b, e, scale, shift);
}
void Linear(const double* x, double* y, int64_t b, int64_t e, double scale, double shift) {
  LinearLoop(x, y, b, e, scale, shift);
}

// y = (scale * x + shift) ^ power
template <typename T>
void Raise(const T* x, T* y, int64_t begin, int64_t end, T scale, T shift, T power) {
  if (power == 1) return Linear(x, y, begin, end, scale, shift);
  for (int64_t i = begin; i < end; ++i) y[i] = RaisedTo(scale * x[i] + shift, power);
}

constexpr int64_t kGrain = 1 << 12;  // minimum elements per thread

class Power final : public Layer {
 public:
  explicit Power(const LayerParameter& param)
      : Layer(param),
        power_(param.power_param().power()),
        scale_(param.power_param().scale()),
        shift_(param.power_param().shift()) {
    if (!std::isfinite(power_)) FailField(*this, "power_param.power", "power is not finite");
    if (!std::isfinite(scale_)) FailField(*this, "power_param.scale", "scale is not finite");
    if (!std::isfinite(shift_)) FailField(*this, "power_param.shift", "shift is not finite");
  }

  LayerInfo Infer(const InferContext& context) const override {
    LayerInfo info;
    info.outputs = {context.inputs[0]};
    info.reach = Reach::kElement;
    info.in_place = IsConstant() || power_ == 1;
    info.backward_reads_input = {!info.in_place};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      T* y = args.outputs[0].data<T>();
      if (IsConstant()) {
        std::fill_n(y, args.outputs[0].count(),
                    power_ == 0 ? T(1) : std::pow(T(shift_), T(power_)));
        return;
      }
      ParallelFor(
          args.context.threads(), args.inputs[0].count(), kGrain,
          [&](int64_t b, int64_t e, int) { Raise(x, y, b, e, T(scale_), T(shift_), T(power_)); });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    DispatchFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
      const T* dy = args.output_grads[0].data<T>();
      T* dx = args.input_grads[0].data<T>();
      const int64_t count = args.output_grads[0].count();
      if (IsConstant()) {
        std::fill_n(dx, count, T(0));
        return;
      }
      const T* x = power_ == 1 ? nullptr : args.inputs[0].data<T>();
      ParallelFor(args.context.threads(), count, kGrain, [&](int64_t b, int64_t e, int) {
        if (power_ == 1) return Linear(dy, dx, b, e, T(scale_), T(0));
        Raise(x, dx, b, e, T(scale_), T(shift_), T(power_) - 1);
        for (int64_t i = b; i < e; ++i) dx[i] *= T(power_) * T(scale_) * dy[i];
      });
    });
  }

 private:
  bool IsConstant() const { return power_ * scale_ == 0; }

  const float power_;
  const float scale_;
  const float shift_;
};

std::vector<LayerSample> Samples() {
  const SampleInput any{.shape = {2, 3, 4}};
  const SampleInput positive{.shape = {2, 3, 4}, .low = 0.2, .high = 2};
  return {
      {.name = "default", .prototxt = "", .inputs = {any}},
      {.name = "linear", .prototxt = "power_param { scale: -2 shift: 0.5 }", .inputs = {any}},
      {.name = "square", .prototxt = "power_param { power: 2 scale: 3 shift: 1 }", .inputs = {any}},
      {.name = "cube", .prototxt = "power_param { power: 3 scale: 0.5 }", .inputs = {any}},
      {.name = "root", .prototxt = "power_param { power: 0.5 shift: 0.1 }", .inputs = {positive}},
      {.name = "inverse", .prototxt = "power_param { power: -1 scale: 2 }", .inputs = {positive}},
      {.name = "power_0", .prototxt = "power_param { power: 0 shift: 3 }", .inputs = {any}},
      {.name = "scale_0",
       .prototxt = "power_param { power: 2 scale: 0 shift: 3 }",
       .inputs = {any}},
      {.name = "empty_batch",
       .prototxt = "power_param { power: 2 }",
       .inputs = {{.shape = {0, 3}}}},
  };
}

}  // namespace

void RegisterPower(Registry& registry) {
  LayerType type;
  type.name = "Power";
  type.category = "activation";
  type.summary = "A power of a linear function, element by element.";
  type.formula = "y = (shift + scale * x) ^ power";
  type.input_docs = {"x: any shape"};
  type.output_docs = {"y: the shape of x"};
  type.differences = {
      "If the derivative is not finite (0 to a power below 1), the gradient is what the formula "
      "gives, as in Caffe."};
  type.param_fields = {"power_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Power>(p); };
  type.samples = Samples();
  type.bad_samples = {
      {"power_param { power: nan }", {{2}}, "not finite"},
      {"power_param { scale: inf }", {{2}}, "not finite"},
      {"power_param { shift: -inf }", {{2}}, "not finite"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
