// SReLU, the S-shaped ReLU of Jin et al.: y = tr + ar (x - tr) for x >= tr, x for tl < x < tr, and
// tl + al (x - tl) for x <= tl, with four learned values for each channel (axis 1) or for all.
// dx = dy times the slope at x. dtr = (1 - ar) sum dy and dar = sum dy (x - tr) over x >= tr; the
// same for tl and al over the others up to tl. Slopes can be negative, so y does not tell x, and
// backward reads x.
#include "layers/activation/srelu.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "math/broadcast.h"

namespace crema {
namespace {

FillerParameter FillerOr(bool is_set, const FillerParameter& given, float value) {
  FillerParameter constant;
  constant.set_value(value);
  return is_set ? given : constant;
}

class SReLU final : public Layer {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    if (shape.axes() < 2) {
      FailInputs(*this, StrCat("the input is ", ToString(shape),
                               ", expected 2 axes or more; the channels are axis 1"));
    }
    const SReLUParameter& p = param().srelu_param();
    const FillerParameter tr = FillerOr(p.has_tr_filler(), p.tr_filler(), 1);
    const FillerParameter tl = FillerOr(p.has_tl_filler(), p.tl_filler(), 0);
    if (tr.type() == "constant" && tl.type() == "constant" && tr.value() < tl.value()) {
      FailField(*this, "srelu_param",
                StrCat("the right threshold starts at ", tr.value(), ", below the left one, ",
                       tl.value()));
    }
    const Shape each = Shared() ? Shape() : Shape{shape[1]};
    LayerInfo info;
    info.outputs = {context.inputs[0]};
    info.reach = Shared() ? Reach::kElement : Reach::kPlace;
    info.parameters = {
        {.role = "right_threshold", .shape = each, .filler = tr},
        {.role = "right_slope",
         .shape = each,
         .filler = FillerOr(p.has_ar_filler(), p.ar_filler(), 1)},
        {.role = "left_threshold", .shape = each, .filler = tl},
        {.role = "left_slope",
         .shape = each,
         .filler = FillerOr(p.has_al_filler(), p.al_filler(), 0.25F)},
    };
    info.backward_reads_input = {true};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      const auto bend = [](T v, T, T tr, T ar, T tl, T al) {
        return SRelu<T>{tr, ar, tl, al}.Value(v);
      };
      Apply(args, bend, x, x, args.outputs[0].data<T>());
    });
  }

  void Backward(const BackwardArgs& args) const override {
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      const T* dy = args.output_grads[0].data<T>();
      for (int k = 0; k < 4; ++k) {
        const TensorView& gradient = args.parameter_grads[static_cast<size_t>(k)];
        if (gradient.empty()) continue;
        const auto term = [k](T v, T d, T tr, T ar, T tl, T al) {
          return d * SRelu<T>{tr, ar, tl, al}.Derivative(k, v);
        };
        AddBroadcastSums(args.context.threads(), SizesOf(args.inputs[0].shape()), term, x, dy,
                         gradient.data<T>(), Values<T>(args, 0), Values<T>(args, 1),
                         Values<T>(args, 2), Values<T>(args, 3));
      }
      if (args.input_grads[0].empty()) return;
      const auto bend = [](T v, T d, T tr, T ar, T tl, T al) {
        return d * SRelu<T>{tr, ar, tl, al}.Slope(v);
      };
      Apply(args, bend, x, dy, args.input_grads[0].data<T>());
    });
  }

 private:
  bool Shared() const { return param().srelu_param().channel_shared(); }

  BroadcastShape SizesOf(const Shape& shape) const {
    if (Shared()) return {1, 1, shape.count()};
    return {shape[0], shape[1], shape.count(2)};
  }

  template <typename T, typename Args>
  static const T* Values(const Args& args, size_t parameter) {
    return args.parameters[parameter].template data<T>();
  }

  template <typename Args, typename Op, typename T>
  void Apply(const Args& args, Op op, const T* x, const T* z, T* y) const {
    Broadcast(args.context.threads(), SizesOf(args.inputs[0].shape()), op, x, z, y,
              Values<T>(args, 0), Values<T>(args, 1), Values<T>(args, 2), Values<T>(args, 3));
  }
};

// The checker draws all learned values with a deviation of 0.5: from 3 on, and up to -3, inputs lie
// on one line. Those of the small samples lie on all three, and none near a threshold.
std::vector<LayerSample> Samples() {
  const std::string shared = "srelu_param { channel_shared: true }";
  const SampleInput image{.shape = {2, 3, 4, 5}};
  const auto beyond = [](std::vector<int64_t> shape, double low) {
    return SampleInput{.shape = std::move(shape), .low = low, .high = low + 2};
  };
  return {
      {.name = "plain", .inputs = {image}},
      {.name = "fillers",
       .prototxt = "srelu_param { tr_filler { value: 0.5 } ar_filler { value: 2 } tl_filler { "
                   "value: -0.5 } al_filler { value: 0 } }",
       .inputs = {image}},
      {.name = "shared", .prototxt = shared, .inputs = {image}},
      {.name = "rows", .inputs = {beyond({7, 5}, 3)}},
      {.name = "volume", .inputs = {{.shape = {2, 2, 3, 2, 2}}}},
      {.name = "many_rows", .inputs = {beyond({40, 1201}, 3)}},
      {.name = "large_shared", .prototxt = shared, .inputs = {beyond({3, 30011}, -5)}},
      {.name = "large", .inputs = {beyond({2, 3, 20011}, -5)}},
      {.name = "empty_batch", .inputs = {{.shape = {0, 3, 2}}}},
  };
}

}  // namespace

void RegisterSReLU(Registry& registry) {
  LayerType type;
  type.name = "SReLU";
  type.traits = {.fits_16_bits = true};
  type.category = "activation";
  type.summary = "S-shaped ReLU: three lines with learned thresholds and slopes.";
  type.formula =
      "y = tr[c] + ar[c] (x - tr[c]) for x >= tr[c]; x for tl[c] < x < tr[c]; tl[c] + al[c] (x - "
      "tl[c]) otherwise";
  type.input_docs = {"x: N x C x ..., any number of axes from 2"};
  type.output_docs = {"y: the shape of x"};
  type.parameter_docs = {"tr, right threshold: C; a scalar with channel_shared", "ar, right slope",
                         "tl, left threshold", "al, left slope"};
  type.origin = "facenx";
  type.differences = {
      "Thresholds may cross while they are learned; the right one then counts. The fork adds the "
      "gradients of both."};
  type.param_fields = {"srelu_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const SReLU>(p); };
  type.samples = Samples();
  type.bad_samples = {
      {"", {{4}}, "the input is 4, expected 2 axes or more"},
      {"srelu_param { tl_filler { value: 2 } }", {{2, 3}}, "starts at 1, below the left one, 2"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
