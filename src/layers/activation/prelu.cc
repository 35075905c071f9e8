// PReLU: y = max(x, 0) + a_c * min(x, 0). The slope a_c is learned, one per channel (axis 1) or one
// for all. dx = dy where x > 0, a_c * dy elsewhere; da_c = sum of dy * x where x <= 0. A slope can
// become negative, so y does not determine the sign of x, and backward reads x.
#include <memory>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/blocked_implementation.h"
#include "math/blocked_prelu.h"
#include "math/broadcast.h"

namespace crema {
namespace {

class PReLU final : public Layer {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    if (shape.axes() < 2) {
      FailInputs(*this, StrCat("the input is ", ToString(shape),
                               ", expected 2 axes or more; the channels are axis 1"));
    }
    LayerInfo info;
    info.outputs = {context.inputs[0]};
    info.reach = Shared() ? Reach::kElement : Reach::kPlace;
    info.parameters = {
        {.role = "slope", .shape = Shared() ? Shape() : Shape{shape[1]}, .filler = Filler()}};
    info.backward_reads_input = {true};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      const auto bend = [](T v, T, T slope) { return v > 0 ? v : slope * v; };
      Broadcast(args.context.threads(), SizesOf(args.inputs[0].shape()), bend, x, x,
                args.outputs[0].data<T>(), args.parameters[0].data<T>());
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const BroadcastShape sizes = SizesOf(args.inputs[0].shape());
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      const T* dy = args.output_grads[0].data<T>();
      if (!args.parameter_grads[0].empty()) {
        const auto product = [](T v, T d) { return v > 0 ? T(0) : v * d; };
        AddBroadcastSums(args.context.threads(), sizes, product, x, dy,
                         args.parameter_grads[0].data<T>());
      }
      if (!args.input_grads[0].empty()) {
        const auto bend = [](T v, T d, T slope) { return v > 0 ? d : slope * d; };
        Broadcast(args.context.threads(), sizes, bend, x, dy, args.input_grads[0].data<T>(),
                  args.parameters[0].data<T>());
      }
    });
  }

  bool Shared() const { return param().prelu_param().channel_shared(); }

 private:
  FillerParameter Filler() const {
    if (param().prelu_param().has_filler()) return param().prelu_param().filler();
    FillerParameter quarter;
    quarter.set_value(0.25F);
    return quarter;
  }

  BroadcastShape SizesOf(const Shape& shape) const {
    if (Shared()) return {1, 1, shape.count()};
    return {shape[0], shape[1], shape.count(2)};
  }
};

PReluBlocks BlocksOf(const Layer& layer, const Shape& shape, const ConstTensorView& slope) {
  return {.batch = shape[0],
          .channels = shape[1],
          .pixels = shape.count(2),
          .slope = slope.data<float>(),
          .shared = static_cast<const PReLU&>(layer).Shared()};
}

void ForwardBlocked(const Layer& layer, const ForwardArgs& args) {
  const PReluBlocks blocks = BlocksOf(layer, args.inputs[0].shape(), args.parameters[0]);
  BlockedPRelu(args.context.threads(), blocks, args.inputs[0].data<float>(),
               args.outputs[0].data<float>());
}

void BackwardBlocked(const Layer& layer, const BackwardArgs& args) {
  const PReluBlocks blocks = BlocksOf(layer, args.inputs[0].shape(), args.parameters[0]);
  const int threads = args.context.threads();
  const float* x = args.inputs[0].data<float>();
  const float* dy = args.output_grads[0].data<float>();
  if (!args.parameter_grads[0].empty()) {
    BlockedPReluToSlope(threads, blocks, x, dy, args.parameter_grads[0].data<float>());
  }
  if (!args.input_grads[0].empty()) {
    BlockedPReluBackward(threads, blocks, x, dy, args.input_grads[0].data<float>());
  }
}

std::vector<LayerSample> Samples() {
  const std::string filler = "filler { type: \"uniform\" min: -0.5 max: 0.9 }";
  const std::string own = "prelu_param { " + filler + " }";
  const std::string shared = "prelu_param { channel_shared: true " + filler + " }";
  const SampleInput image{.shape = {2, 3, 4, 5}, .has_kink = true};
  const SampleInput rows{.shape = {7, 5}, .has_kink = true};
  return {
      {.name = "plain", .prototxt = "", .inputs = {image}},
      {.name = "own_slopes", .prototxt = own, .inputs = {image}},
      {.name = "shared", .prototxt = shared, .inputs = {image}},
      {.name = "rows", .prototxt = own, .inputs = {rows}},
      {.name = "volume", .prototxt = own, .inputs = {{.shape = {2, 2, 3, 2, 2}, .has_kink = true}}},
      {.name = "many_rows", .prototxt = own, .inputs = {{.shape = {40, 1201}, .has_kink = true}}},
      {.name = "large_shared",
       .prototxt = shared,
       .inputs = {{.shape = {3, 30011}, .has_kink = true}}},
      {.name = "large", .prototxt = own, .inputs = {{.shape = {2, 3, 20011}, .has_kink = true}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3, 2}}}},
  };
}

}  // namespace

void RegisterPReLU(Registry& registry) {
  LayerType type;
  type.name = "PReLU";
  type.traits = {.fits_16_bits = true};
  type.category = "activation";
  type.summary = "ReLU with a learned slope below 0, for each channel or for all.";
  type.formula = "y = max(x, 0) + slope[c] * min(x, 0)";
  type.input_docs = {"x: N x C x ..., any number of axes from 2"};
  type.output_docs = {"y: the shape of x"};
  type.parameter_docs = {"slope: C; a scalar with channel_shared"};
  type.differences = {"Any number of axes; Caffe takes 4 at most."};
  type.param_fields = {"prelu_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const PReLU>(p); };
  type.implementations = {MakeBlockedImplementation(
      {.supports = SupportsBlocked, .forward = ForwardBlocked, .backward = BackwardBlocked})};
  type.samples = Samples();
  type.bad_samples = {{"", {{4}}, "the input is 4, expected 2 axes or more"}};
  registry.Add(std::move(type));
}

}  // namespace crema
