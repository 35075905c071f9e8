// Convolutions and Im2col.
#include <algorithm>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "layers/convolution/conv_geometry.h"
#include "layers/fused_relu.h"
#include "onnx/export_layer.h"

namespace crema {
namespace {

std::vector<int64_t> Entries(const ConvWindow::Sizes& sizes, const ConvWindow& window) {
  return {sizes.begin(), sizes.begin() + window.axes};
}

// Pads of a transposed convolution are those of the convolution that it transposes.
std::vector<int64_t> Pads(const ConvWindow& window, bool transposed) {
  std::vector<int64_t> pads = Entries(window.pad, window);
  for (size_t a = 0; a < static_cast<size_t>(window.axes); ++a) {
    // A kernel larger than the padded image still has one window, over further zeros at the end.
    const int64_t reach =
        (window.out[a] - 1) * window.stride[a] + window.dilation[a] * (window.kernel[a] - 1) + 1;
    const int64_t missing = reach - window.in[a] - window.pad[a];
    pads.push_back(transposed ? window.pad[a] : std::max(window.pad[a], missing));
  }
  return pads;
}

OnnxAttributes AttributesOf(const ConvWindow& window, int64_t groups, bool transposed) {
  return {{"kernel_shape", Entries(window.kernel, window)},
          {"strides", Entries(window.stride, window)},
          {"pads", Pads(window, transposed)},
          {"dilations", Entries(window.dilation, window)},
          {"group", groups}};
}

// Batch x channels x spatial axes.
Shape Image(const Shape& shape, int channel_axis) {
  std::vector<int64_t> dims = {shape.count(0, channel_axis)};
  for (int a = channel_axis; a < shape.axes(); ++a) dims.push_back(shape[a]);
  return Shape(std::span<const int64_t>(dims));
}

// Adds a spatial axis of one place to a convolution that has none.
ConvWindow WithAxis(ConvWindow window) {
  if (window.axes > 0) return window;
  window.axes = 1;
  for (ConvWindow::Sizes* sizes :
       {&window.in, &window.out, &window.kernel, &window.stride, &window.dilation}) {
    sizes->front() = 1;
  }
  return window;
}

// One node for each bottom; all share the filters.
void Filter(LayerExport& e, bool transposed, const ConvGeometry& geometry) {
  const FusedRelu relu = ReluOf(e.layer, {});
  const OnnxAttributes attributes =
      AttributesOf(WithAxis(geometry.window), geometry.groups, transposed);
  const int axis = geometry.channel_axis;
  const bool flat = geometry.window.axes == 0;
  const auto image = [&](const Shape& shape) {
    std::vector<int64_t> dims = DimsOf(Image(shape, axis));
    if (flat) dims.push_back(1);
    return Shape(std::span<const int64_t>(dims));
  };
  std::vector<int64_t> filter = DimsOf(e.parameters[0].shape());
  if (flat) filter.push_back(1);
  for (size_t i = 0; i < e.in.size(); ++i) {
    const bool open = e.open[i] && axis > 0;
    std::vector<std::string> inputs = {e.Reshape(e.in[i], e.shape(i), image(e.shape(i)), open),
                                       e.Parameter(0, filter)};
    if (e.param.convolution_param().bias_term()) {
      inputs.push_back(e.Parameter(1, {e.parameters[1].count()}));
    }
    std::string y = e.Add(transposed ? "ConvTranspose" : "Conv", inputs, attributes);
    y = e.Reshape(y, image(e.out_shape(i)), e.out_shape(i), open);
    e.out.push_back(e.Activate(y, relu.on, relu.slope));
  }
}

void Convolution(LayerExport& e) { Filter(e, false, MakeConvGeometry(e.layer, e.shape())); }

// The geometry is that of the convolution which it transposes.
void Deconvolution(LayerExport& e) { Filter(e, true, MakeDeconvGeometry(e.layer, e.shape())); }

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
      e.Add("Conv", {x, e.graph.Floats(dims, filters)}, AttributesOf(window, channels, false));
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
