// Registration of Convolution: its implementations, and samples for the generic checker.
#include <memory>

#include "crema.pb.h"
#include "layers/convolution/convolution.h"

namespace crema {
namespace {

LayerSample Sample(std::string name, const std::string& fields,
                   std::vector<std::vector<int64_t>> shapes, const std::string& more = "") {
  LayerSample sample;
  sample.name = std::move(name);
  sample.prototxt = "convolution_param { " + fields +
                    " weight_filler { type: \"gaussian\" std: 0.5 }"
                    " bias_filler { type: \"uniform\" min: -1 max: 1 } } " +
                    more;
  for (std::vector<int64_t>& shape : shapes) sample.inputs.push_back({.shape = std::move(shape)});
  sample.outputs = static_cast<int>(sample.inputs.size());
  return sample;
}

std::vector<LayerSample> Samples() {
  return {
      Sample("plain", "num_output: 4 kernel_size: 3", {{2, 3, 6, 5}}),
      Sample("pad_stride", "num_output: 3 kernel_size: 3 pad: 1 stride: 2", {{2, 2, 7, 6}}),
      Sample("pad_wider_than_image", "num_output: 2 kernel_size: 5 pad: 4", {{1, 2, 2, 3}}),
      Sample("two_axes_apart",
             "num_output: 2 kernel_h: 3 kernel_w: 2 stride_h: 1 stride_w: 2 pad_h: 0 pad_w: 1",
             {{2, 2, 5, 6}}),
      Sample("groups", "num_output: 6 kernel_size: 3 group: 2", {{2, 4, 5, 5}}),
      Sample("depthwise", "num_output: 3 kernel_size: 3 pad: 1 group: 3", {{1, 3, 5, 4}}),
      Sample("dilated", "num_output: 2 kernel_size: 3 dilation: 2 pad: 1", {{2, 2, 7, 8}}),
      Sample("pointwise", "num_output: 5 kernel_size: 1", {{2, 3, 4, 5}}),
      Sample("pointwise_strided", "num_output: 3 kernel_size: 1 stride: 2", {{2, 3, 5, 6}}),
      Sample("no_bias", "num_output: 2 kernel_size: 2 bias_term: false", {{2, 2, 4, 4}}),
      Sample("two_inputs", "num_output: 2 kernel_size: 2", {{2, 2, 4, 3}, {2, 2, 4, 3}}),
      Sample("no_spatial_axes", "num_output: 3", {{4, 5}}),
      Sample("one_spatial_axis", "num_output: 3 kernel_size: 3 pad: 1", {{2, 2, 9}}),
      Sample("three_spatial_axes", "num_output: 2 kernel_size: 2 stride: 2 stride: 1 stride: 1",
             {{1, 2, 4, 3, 3}}),
      Sample("channels_last_but_one", "num_output: 2 kernel_size: 3 axis: -2", {{2, 2, 3, 6}}),
      Sample("kernel_past_the_end", "num_output: 2 kernel_size: 4 stride: 3", {{1, 2, 3, 7}}),
      Sample("relu", "num_output: 4 kernel_size: 3 pad: 1", {{2, 2, 5, 5}}, "fused_relu_param {}"),
      Sample("whole_blocks", "num_output: 16 kernel_size: 3 pad: 1", {{1, 32, 4, 5}}),
      Sample("groups_of_whole_blocks", "num_output: 32 group: 2 kernel_size: 3 stride: 2",
             {{2, 32, 5, 5}}, "fused_relu_param {}"),
      Sample("depthwise_blocks", "num_output: 16 group: 16 kernel_size: 3 pad: 1", {{2, 16, 4, 5}}),
      Sample("leaky_relu", "num_output: 3 kernel_size: 2 group: 3", {{2, 3, 4, 5}},
             "fused_relu_param { negative_slope: 0.25 }"),
      Sample("intel_relu", "num_output: 2 kernel_size: 2 relu: true negative_slope: 0.5",
             {{2, 2, 4, 4}}),
      Sample("intel_relu_and_fused", "num_output: 2 kernel_size: 2 relu: true negative_slope: 0.5",
             {{2, 2, 4, 4}}, "fused_relu_param { negative_slope: 0.5 }"),
      Sample("one_position", "num_output: 6 kernel_h: 2 kernel_w: 3", {{3, 4, 2, 3}},
             "fused_relu_param { negative_slope: 0.25 }"),
      Sample("one_position_one_image", "num_output: 5 kernel_size: 1 stride: 2", {{1, 7, 1, 1}}),
      Sample("hole", "num_output: 2 kernel_size: 3 hole: 2", {{2, 2, 7, 6}}),
      Sample("hole_apart", "num_output: 2 kernel_size: 2 hole_h: 3 hole_w: 1", {{2, 2, 6, 4}}),
      Sample("empty_batch", "num_output: 2 kernel_size: 3", {{0, 2, 4, 4}}),
  };
}

std::vector<BadSample> BadSamples() {
  const auto bad = [](const char* fields, std::vector<std::vector<int64_t>> shapes,
                      const char* expect, int outputs = 1) {
    return BadSample{std::string("convolution_param { ") + fields + " }", std::move(shapes), expect,
                     outputs};
  };
  return {
      bad("kernel_size: 3", {{1, 2, 5, 5}}, "num_output is missing"),
      bad("num_output: 2", {{1, 2, 5, 5}}, "kernel_size is missing"),
      bad("num_output: 2 kernel_size: 0", {{1, 2, 5, 5}}, "kernel_size must be above 0"),
      bad("num_output: 2 kernel_size: 3 kernel_size: 3 kernel_size: 3", {{1, 2, 5, 5}}, "3 values"),
      bad("num_output: 2 kernel_h: 3", {{1, 2, 5, 5}}, "kernel_w is missing"),
      bad("num_output: 2 kernel_size: 3 kernel_h: 3 kernel_w: 3", {{1, 2, 5, 5}}, "not both"),
      bad("num_output: 2 kernel_h: 3 kernel_w: 3", {{1, 2, 5}}, "two spatial axes"),
      bad("num_output: 2 kernel_size: 3 stride: 0", {{1, 2, 5, 5}}, "stride must be above 0"),
      bad("num_output: 2 kernel_size: 3 stride_h: 2", {{1, 2, 5, 5}}, "stride_w is missing"),
      bad("num_output: 2 kernel_size: 3 group: 0", {{1, 2, 5, 5}}, "group must be above 0"),
      bad("num_output: 3 kernel_size: 3 group: 2", {{1, 2, 5, 5}}, "num_output 3"),
      bad("num_output: 2 kernel_size: 3 group: 2", {{1, 3, 5, 5}}, "3 channels"),
      bad("num_output: 2 kernel_size: 3 axis: 4", {{1, 2, 5, 5}}, "axis 4"),
      bad("num_output: 2 kernel_size: 9", {{1, 2, 5, 5}}, "smaller kernel"),
      bad("num_output: 2 kernel_size: 3", {{1, 2, 5, 5}, {1, 2, 6, 5}}, "same shape", 2),
      bad("num_output: 2 kernel_size: 3 hole: 2 dilation: 2", {{1, 2, 9, 9}},
          "another word for dilation"),
      bad("num_output: 2 kernel_size: 3 hole: 0", {{1, 2, 9, 9}}, "hole must be above 0"),
      bad("num_output: 2 kernel_size: 3 dilation: 0", {{1, 2, 9, 9}}, "dilation must be above 0"),
      bad("num_output: 2 kernel_size: 3 relu: true negative_slope: -1", {{1, 2, 9, 9}},
          "must be 0 or more"),
      BadSample{"convolution_param { num_output: 2 kernel_size: 3 } "
                "fused_relu_param { negative_slope: -1 }",
                {{1, 2, 5, 5}},
                "fused ReLU"},
  };
}

}  // namespace

LayerType ConvolutionType() {
  LayerType type;
  type.category = "convolution";
  type.traits = {.fits_16_bits = true, .multiplies_matrices = true, .computes_on_bytes = true};
  type.input_docs = {"x: N x C x spatial axes; several inputs of one shape share the filters"};
  type.output_docs = {"y: N x num_output x spatial axes, one for each input"};
  type.parameter_docs = {"weight: num_output x C / group x kernel",
                         "bias: num_output; only with bias_term"};
  type.differences = {
      "An output size of 0 or less is refused; Caffe refuses it later, when it allocates.",
      "stride_h without stride_w, or the reverse, is refused; Caffe divides by 0.",
      "relu and negative_slope are IntelCaffe's fused ReLU, hole is DeepLab's word for dilation.",
      "engine and the fields about algorithms are hints."};
  type.param_fields = {"convolution_param", "fused_relu_param"};
  type.unread_fields = {"convolution_param.coeff", "convolution_param.fusion_type",
                        "convolution_param.kernel_depth", "convolution_param.temporal_stride",
                        "convolution_param.temporal_pad"};
  type.inputs = {1, Arity::kAny};
  type.outputs = {1, Arity::kAny};
  type.outputs_equal_inputs = true;
  type.make = [](const LayerParameter& p) { return std::make_unique<const Convolution>(p); };
#ifdef CREMA_HAVE_ONEDNN
  type.implementations = OneDnnConvolutionImplementations();
#endif
  type.implementations.push_back(DepthwiseConvolutionImplementation());
  type.implementations.push_back(ProductConvolutionImplementation());
  type.implementations.push_back(PackedConvolutionImplementation());
  type.implementations.push_back(NativeWithRelu());
  return type;
}

void RegisterConvolution(Registry& registry) {
  LayerType type = ConvolutionType();
  type.name = "Convolution";
  type.summary = "Learned filters slid over any number of spatial axes.";
  type.formula =
      "y[n, o, p] = bias[o] + sum over c, k of weight[o, c, k] * x[n, c, p * stride - pad + k * "
      "dilation]; size: (in + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1";
  type.samples = Samples();
  type.bad_samples = BadSamples();
  registry.Add(std::move(type));
}

}  // namespace crema
