// Convolution3D (C3D): Convolution over time, height and width. The window in time has fields of
// its own.
#include <memory>

#include "core/strings.h"
#include "crema.pb.h"
#include "layers/convolution/convolution.h"
#include "layers/parameter_shapes.h"

namespace crema {
namespace {

// Returns the same convolution in the fields of Convolution: one value per axis.
LayerParameter WithThreeAxes(const LayerParameter& given) {
  LayerParameter param = given;
  ConvolutionParameter* p = param.mutable_convolution_param();
  const auto spread = [](uint32_t time, google::protobuf::RepeatedField<uint32_t>* values,
                         uint32_t missing) {
    if (values->size() > 1) return;  // the constructor reports the error
    const uint32_t space = values->empty() ? missing : values->Get(0);
    values->Clear();
    for (uint32_t value : {time, space, space}) values->Add(value);
  };
  if (!p->kernel_size().empty()) spread(p->kernel_depth(), p->mutable_kernel_size(), 0);
  spread(p->temporal_stride(), p->mutable_stride(), 1);
  spread(p->temporal_pad(), p->mutable_pad(), 0);
  return param;
}

// Returns true for one entry, or for the three that WithThreeAxes has made of `time` and one entry.
bool IsSpread(const google::protobuf::RepeatedField<uint32_t>& values, uint32_t time) {
  return values.size() == 1 || (values.size() == 3 && values[0] == time && values[1] == values[2]);
}

class Convolution3D final : public Convolution {
 public:
  explicit Convolution3D(const LayerParameter& given) : Convolution(WithThreeAxes(given)) {
    const ConvolutionParameter& p = given.convolution_param();
    Require(IsSpread(p.kernel_size(), p.kernel_depth()), "kernel_size",
            "give one kernel_size, for height and width");
    Require(p.kernel_depth() > 0, "kernel_depth",
            "kernel_depth, the window in time, is missing or 0");
    Require(p.stride().empty() || IsSpread(p.stride(), p.temporal_stride()), "stride",
            "give one stride, for height and width");
    Require(p.pad().empty() || IsSpread(p.pad(), p.temporal_pad()), "pad",
            "give one pad, for height and width");
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& input = context.inputs[0].shape;
    if (input.axes() != 5) {
      FailInputs(*this, StrCat("Convolution3D works on inputs of 5 axes (batch, channels, time, ",
                               "height, width), but the input is ", ToString(input)));
    }
    return Convolution::Infer(context);
  }

 private:
  void Require(bool holds, const char* field, const char* message) const {
    if (!holds) FailField(*this, StrCat("convolution_param.", field), message);
  }
};

}  // namespace

void RegisterConvolution3D(Registry& registry) {
  LayerType type = ConvolutionType();
  type.name = "Convolution3D";
  type.summary = "Convolution over time, height and width, for clips.";
  type.formula =
      "as Convolution with kernel (kernel_depth, kernel_size, kernel_size), stride "
      "(temporal_stride, stride, stride) and pad (temporal_pad, pad, pad)";
  type.input_docs = {"x: N x C x time x height x width"};
  type.parameter_docs = {
      "weight: num_output x C / group x kernel_depth x kernel_size x kernel_size",
      "bias: num_output; only with bias_term"};
  type.differences = {
      "Blobs in weights files are matched by their sizes, because those of C3D have additional "
      "axes of size 1."};
  type.origin = "C3D";
  type.unread_fields = {"convolution_param.coeff", "convolution_param.fusion_type"};
  type.adapt_blobs = [](const LayerParameter&, const LayerInfo& info,
                        std::vector<BlobProto>* blobs) { GiveParameterShapes(info, blobs); };
  type.make = [](const LayerParameter& p) { return std::make_unique<const Convolution3D>(p); };
  const auto sample = [](std::string name, const std::string& fields, std::vector<int64_t> shape) {
    return LayerSample{.name = std::move(name),
                       .prototxt = "convolution_param { " + fields +
                                   " weight_filler { type: \"gaussian\" std: 0.1 } }",
                       .inputs = {{.shape = std::move(shape)}}};
  };
  type.implementations = {};  // all support at most two spatial axes
  type.traits.computes_on_bytes = false;
  type.samples = {
      sample("c3d", "num_output: 3 kernel_size: 3 kernel_depth: 3 pad: 1 temporal_pad: 1",
             {1, 2, 4, 4, 3}),
      sample("apart",
             "num_output: 2 kernel_size: 2 kernel_depth: 3 stride: 1 temporal_stride: 2 pad: 0 "
             "temporal_pad: 1 bias_term: false",
             {2, 2, 5, 3, 4}),
      sample("groups", "num_output: 4 kernel_size: 2 kernel_depth: 1 group: 2 stride: 2",
             {1, 2, 2, 4, 4}),
  };
  type.bad_samples = {
      {.prototxt = "convolution_param { num_output: 2 kernel_size: 3 }",
       .input_shapes = {{1, 2, 4, 4, 4}},
       .expect = "kernel_depth"},
      {.prototxt = "convolution_param { num_output: 2 kernel_depth: 3 }",
       .input_shapes = {{1, 2, 4, 4, 4}},
       .expect = "give one kernel_size"},
      {.prototxt = "convolution_param { num_output: 2 kernel_size: 3 kernel_depth: 2 stride: 1 "
                   "stride: 2 }",
       .input_shapes = {{1, 2, 4, 4, 4}},
       .expect = "give one stride"},
      {.prototxt = "convolution_param { num_output: 2 kernel_size: 3 kernel_depth: 2 pad: 1 "
                   "pad: 2 }",
       .input_shapes = {{1, 2, 4, 4, 4}},
       .expect = "give one pad"},
      {.prototxt = "convolution_param { num_output: 2 kernel_size: 3 kernel_depth: 2 }",
       .input_shapes = {{1, 2, 4, 4}},
       .expect = "5 axes"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
