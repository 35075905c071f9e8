// Convolutions and Im2col.
#include "crema.pb.h"
#include "layers/convolution/conv_geometry.h"
#include "layers/fused_relu.h"
#include "onnx/export_layer.h"

namespace crema {
namespace {

std::vector<int64_t> Entries(const ConvWindow::Sizes& sizes, const ConvWindow& window) {
  return {sizes.begin(), sizes.begin() + window.axes};
}

OnnxAttributes AttributesOf(const ConvWindow& window, int64_t groups) {
  std::vector<int64_t> pads = Entries(window.pad, window);
  pads.insert(pads.end(), window.pad.begin(), window.pad.begin() + window.axes);
  return {{"kernel_shape", Entries(window.kernel, window)},
          {"strides", Entries(window.stride, window)},
          {"pads", pads},
          {"dilations", Entries(window.dilation, window)},
          {"group", groups}};
}

// Batch x channels x spatial axes.
Shape Image(const Shape& shape, int channel_axis) {
  std::vector<int64_t> dims = {shape.count(0, channel_axis)};
  for (int a = channel_axis; a < shape.axes(); ++a) dims.push_back(shape[a]);
  return Shape(std::span<const int64_t>(dims));
}

// One node for each bottom; all share the filters.
void Filter(LayerExport& e, const char* type, const ConvGeometry& geometry) {
  const FusedRelu relu = ReluOf(e.layer, {});
  if (geometry.window.axes == 0) e.Refuse("it has no spatial axis");
  for (size_t i = 0; i < e.in.size(); ++i) {
    const int axis = geometry.channel_axis;
    const bool open = e.open[i] && axis > 0;
    std::vector<std::string> inputs = {
        e.Reshape(e.in[i], e.shape(i), Image(e.shape(i), axis), open), e.Parameter(0)};
    if (e.param.convolution_param().bias_term()) {
      inputs.push_back(e.Parameter(1, {e.parameters[1].count()}));
    }
    std::string y = e.Add(type, inputs, AttributesOf(geometry.window, geometry.groups));
    y = e.Reshape(y, Image(e.out_shape(i), axis), e.out_shape(i), open);
    e.out.push_back(e.Activate(y, relu.on, relu.slope));
  }
}

void Convolution(LayerExport& e) { Filter(e, "Conv", MakeConvGeometry(e.layer, e.shape())); }

// The geometry is that of the convolution which it transposes.
void Deconvolution(LayerExport& e) {
  Filter(e, "ConvTranspose", MakeDeconvGeometry(e.layer, e.shape()));
}

// Filters of one 1 each, for each channel on its own: output (c, k) is element k of channel c.
void Im2col(LayerExport& e) {
  const int axis = e.shape().CanonicalAxis(e.param.convolution_param().axis());
  const ConvWindow window = MakeConvWindow(e.layer, e.shape(), axis);
  const int64_t channels = e.shape()[axis];
  const int64_t size = window.KernelSize();
  if (channels * size > (int64_t{1} << 26) / size) {
    e.Refuse("its patches would take filters of more than 256 MiB");
  }
  std::vector<float> filters(static_cast<size_t>(channels * size * size));
  for (int64_t i = 0; i < channels * size; ++i) {
    filters[static_cast<size_t>(i * size + i % size)] = 1;
  }
  std::vector<int64_t> dims = {channels * size, 1};
  for (const int64_t kernel : Entries(window.kernel, window)) dims.push_back(kernel);
  const bool open = e.open[0] && axis > 0;
  const std::string x = e.Reshape(e.in[0], e.shape(), Image(e.shape(), axis), open);
  const std::string y =
      e.Add("Conv", {x, e.graph.Floats(dims, filters)}, AttributesOf(window, channels));
  e.out = {e.Reshape(y, Image(e.out_shape(), axis), e.out_shape(), open)};
}

}  // namespace

void AddConvolutionEmitters(EmitterTable* table) {
  table->insert({
      {"Convolution", Convolution},
      {"Convolution3D", Convolution},
      {"ConvolutionDepthwise", Convolution},
      {"Deconvolution", Deconvolution},
      {"DepthwiseConvolution", Convolution},
      {"Im2col", Im2col},
  });
}

}  // namespace crema
