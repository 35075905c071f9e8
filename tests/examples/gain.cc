// Gain: y = g[c] * x, with one learned factor g[c] for each index c of one axis.
// dx = g[c] * dy; dg[c] = sum of dy * x over everything with that index. Backward reads x for dg,
// so x must not be overwritten: the layer does not run in place.
#include "examples/gain.h"

#include "core/parallel_for.h"
#include "crema.pb.h"
#include "layers/layer_axis.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 14;  // elements worth a thread

class Gain final : public Layer {
 public:
  explicit Gain(const LayerParameter& param) : Layer(param), axis_(param.scale_param().axis()) {
    if (param.scale_param().bias_term()) {
      FailField(*this, "scale_param.bias_term", "Gain has no bias; leave this out");
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    LayerInfo info;
    info.outputs = {context.inputs[0]};
    info.reach = Axis(shape) == 1 ? Reach::kPlace : ReachFromAxis(Axis(shape));
    info.parameters = {{.role = "gain", .shape = {shape[Axis(shape)]}, .filler = Filler()}};
    info.backward_reads_input = {true};
    info.macs = shape.count();
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      Multiply(args.context.threads(), args.inputs[0], args.parameters[0].data<T>(),
               args.outputs[0]);
    });
  }

  void Backward(const BackwardArgs& args) const override {
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      if (!args.input_grads[0].empty()) {
        Multiply(args.context.threads(), args.output_grads[0], args.parameters[0].data<T>(),
                 args.input_grads[0]);
      }
      if (!args.parameter_grads[0].empty()) {
        AddGainGradient<T>(args.inputs[0], args.output_grads[0], args.parameter_grads[0]);
      }
    });
  }

 private:
  int Axis(const Shape& shape) const { return LayerAxis(*this, shape, axis_, "scale_param.axis"); }

  // 1 unless the text says otherwise: the layer begins as the identity.
  FillerParameter Filler() const {
    if (param().scale_param().has_filler()) return param().scale_param().filler();
    FillerParameter one;
    one.set_value(1);
    return one;
  }

  // y = g[c] * x, divided among threads by row: the elements of one index of the axis.
  template <typename T>
  void Multiply(int threads, ConstTensorView from, const T* gain, TensorView to) const {
    const int axis = Axis(from.shape());
    const int64_t row = from.shape().count(axis + 1);
    const int64_t channels = from.shape()[axis];
    const T* x = from.data<T>();
    T* y = to.data<T>();
    ParallelFor(threads, from.shape().count(0, axis + 1), kGrain / (row + 1) + 1,
                [&](int64_t begin, int64_t end, int) {
                  for (int64_t r = begin; r < end; ++r) {
                    const T g = gain[r % channels];
                    for (int64_t i = r * row; i < (r + 1) * row; ++i) y[i] = g * x[i];
                  }
                });
  }

  // Adds: gradients of parameters accumulate over the batches of one update (iter_size). One
  // thread, so that the order of the sum, and with it the result, is always the same.
  template <typename T>
  void AddGainGradient(ConstTensorView input, ConstTensorView output_grad, TensorView sum) const {
    const int axis = Axis(input.shape());
    const int64_t row = input.shape().count(axis + 1);
    const int64_t channels = input.shape()[axis];
    const T* x = input.data<T>();
    const T* dy = output_grad.data<T>();
    T* dg = sum.data<T>();
    for (int64_t r = 0; r < input.shape().count(0, axis + 1); ++r) {
      double dot = 0;
      for (int64_t i = r * row; i < (r + 1) * row; ++i) dot += double(dy[i]) * double(x[i]);
      dg[r % channels] += static_cast<T>(dot);
    }
  }

  const int axis_;
};

}  // namespace

void RegisterGain(Registry& registry) {
  LayerType type;
  type.name = "Gain";
  type.category = "arithmetic";
  type.origin = "Crema";
  type.summary = "One learned factor for each index of an axis.";
  type.formula = "y = g[c] * x";
  type.input_docs = {"x: any shape that has the axis"};
  type.output_docs = {"y: the shape of x"};
  type.parameter_docs = {"gain: one factor for each index of the axis"};
  type.param_fields = {"scale_param"};
  type.traits.fits_16_bits = true;
  type.make = [](const LayerParameter& p) { return std::make_unique<const Gain>(p); };
  type.samples = {
      {.name = "channels", .prototxt = "", .inputs = {{.shape = {2, 3, 4, 5}}}},
      {.name = "last_axis",
       .prototxt = "scale_param { axis: -1 filler { type: 'gaussian' } }",
       .inputs = {{.shape = {4, 6}}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}},
  };
  type.bad_samples = {
      {.prototxt = "scale_param { bias_term: true }",
       .input_shapes = {{2, 3}},
       .expect = "no bias"},
      {.prototxt = "scale_param { axis: 2 }", .input_shapes = {{2, 3}}, .expect = "outside"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
