// ConvolutionDepthwise and DepthwiseConvolution: the names under which forks added a convolution
// with one group per channel. Both are a Convolution whose group is the number of channels, given
// or not.
#include "layers/convolution/convolution.h"

namespace crema {
namespace {

LayerSample Sample(std::string name, const std::string& fields, std::vector<int64_t> shape,
                   const std::string& more = "") {
  return {.name = std::move(name),
          .prototxt = "convolution_param { " + fields +
                      " weight_filler { type: \"gaussian\" std: 0.5 } } " + more,
          .inputs = {{.shape = std::move(shape)}}};
}

std::vector<LayerSample> Samples() {
  LayerSample two = Sample("two_inputs", "num_output: 2 kernel_size: 2", {2, 2, 3, 4});
  two.inputs.push_back(two.inputs.front());
  two.outputs = 2;
  return {
      Sample("mobilenet", "num_output: 4 kernel_size: 3 pad: 1 bias_term: false", {2, 4, 5, 6}),
      Sample("with_group", "num_output: 3 group: 3 kernel_size: 3 stride: 2 pad: 1", {2, 3, 7, 6}),
      Sample("multiplier", "num_output: 6 kernel_size: 3 pad: 1", {2, 2, 5, 4}),
      Sample("kernel_5", "num_output: 2 kernel_size: 5 pad: 2 stride: 2", {2, 2, 9, 8}),
      Sample("kernel_7_stride_3", "num_output: 2 kernel_size: 7 pad: 3 stride: 3", {1, 2, 10, 11}),
      Sample("dilated", "num_output: 3 kernel_size: 3 dilation: 3 stride: 2 pad: 2", {2, 3, 9, 10}),
      Sample("two_axes_apart",
             "num_output: 3 kernel_h: 2 kernel_w: 3 stride_h: 2 stride_w: 1 pad_h: 1 pad_w: 0",
             {2, 3, 5, 6}),
      Sample("pad_wider_than_image", "num_output: 2 kernel_size: 5 pad: 4", {1, 2, 2, 3}),
      Sample("rows_not_reached", "num_output: 2 kernel_size: 2 stride: 2", {1, 2, 5, 5}),
      Sample("kernel_past_the_end", "num_output: 2 kernel_size: 4 stride: 3", {1, 2, 3, 7}),
      Sample("gaps", "num_output: 2 kernel_size: 1 stride: 2", {2, 2, 5, 5}),
      Sample("one_spatial_axis", "num_output: 2 kernel_size: 3 stride: 2 pad: 1", {2, 2, 9}),
      Sample("three_spatial_axes", "num_output: 2 kernel_size: 2", {1, 2, 3, 3, 3}),
      Sample("relu", "num_output: 2 kernel_size: 3 pad: 1", {2, 2, 5, 4},
             "fused_relu_param { negative_slope: 0.25 }"),
      Sample("wide", "num_output: 5 kernel_size: 3 pad: 1", {3, 5, 40, 41}),
      two,
      Sample("empty_batch", "num_output: 2 kernel_size: 3", {0, 2, 4, 4}),
  };
}

}  // namespace

void RegisterConvolutionDepthwise(Registry& registry) {
  LayerType type = ConvolutionType();
  type.name = "ConvolutionDepthwise";
  type.summary = "Convolution of each channel on its own; `group` need not be given.";
  type.origin = "forks for MobileNet";
  type.formula =
      "y[n, o, p] = bias[o] + sum over k of weight[o, 0, k] * x[n, o / (num_output / C), p * "
      "stride "
      "- pad + k * dilation]";
  type.parameter_docs[0] = "weight: num_output x 1 x kernel";
  type.differences.emplace_back(
      "num_output may be a multiple of the channels; the forks require both to be equal.");
  type.samples = Samples();
  type.bad_samples = {
      {.prototxt = "convolution_param { num_output: 4 group: 2 kernel_size: 3 }",
       .input_shapes = {{1, 4, 5, 5}},
       .expect = "remove group 2"},
      {.prototxt = "convolution_param { num_output: 6 kernel_size: 3 }",
       .input_shapes = {{1, 4, 5, 5}},
       .expect = "not a multiple of the 4 channels"},
      {.prototxt = "convolution_param { num_output: 4 kernel_size: 3 }",
       .input_shapes = {{1, 0, 5, 5}},
       .expect = "0 channels"},
  };
  registry.Add(std::move(type));
}

void RegisterDepthwiseConvolution(Registry& registry) {
  registry.AddAlias("DepthwiseConvolution", "ConvolutionDepthwise");
}

}  // namespace crema
