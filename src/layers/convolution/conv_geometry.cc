#include "layers/convolution/conv_geometry.h"

#include <string_view>

#include "core/strings.h"
#include "layers/layer_axis.h"

namespace crema {
namespace {

using Extents = ConvWindow::Extents;
constexpr std::string_view kPath = "convolution_param.";

using RepeatedUint = google::protobuf::RepeatedField<uint32_t>;

// One quantity that is given as `field` (none, one for all, one per axis) or as field_h and
// field_w.
struct PerAxis {
  std::string_view field;  // "kernel_size"
  std::string_view stem;   // "kernel"
  const RepeatedUint& values;
  bool has_h;
  bool has_w;
  uint32_t h;
  uint32_t w;
  int64_t missing;  // when neither form is given; -1: must be given
};

Extents ReadPerAxis(const Layer& layer, const PerAxis& p, int axes) {
  Extents result{};
  if (p.has_h || p.has_w) {
    if (axes != 2) {
      FailField(layer, StrCat(kPath, p.stem, p.has_h ? "_h" : "_w"),
                StrCat(p.stem, "_h and ", p.stem, "_w are for two spatial axes, but the input has ",
                       axes, "; use ", p.field));
    }
    if (!p.values.empty()) {
      FailField(layer, StrCat(kPath, p.field),
                StrCat("give ", p.field, " or ", p.stem, "_h and ", p.stem, "_w, not both"));
    }
    result[0] = p.h;
    result[1] = p.w;
    return result;
  }
  const int count = p.values.size();
  const bool fits = count == 1 || count == axes || (count == 0 && p.missing >= 0);
  if (!fits) {
    FailField(layer, StrCat(kPath, p.field),
              StrCat(p.field, count == 0 ? " is missing" : StrCat(" has ", count, " values"),
                     "; give one value, or one for each of the ", axes, " spatial axes"));
  }
  for (int i = 0; i < axes; ++i) {
    result[static_cast<size_t>(i)] = count == 0 ? p.missing : p.values[count == 1 ? 0 : i];
  }
  return result;
}

void RequirePositive(const Layer& layer, const Extents& values, int axes, const PerAxis& p) {
  for (int i = 0; i < axes; ++i) {
    if (values[static_cast<size_t>(i)] > 0) continue;
    const bool other_form = p.has_h != p.has_w;
    const std::string missing = StrCat(p.stem, p.has_h ? "_w" : "_h");
    FailField(layer, StrCat(kPath, other_form ? missing : p.field),
              other_form ? StrCat(missing, " is missing: ", p.stem, "_h and ", p.stem,
                                  "_w must both be given, and above 0")
                         : StrCat(p.field, " must be above 0"));
  }
}

// Division truncates as in Caffe: a kernel that is larger than the padded input by less than one
// step still gives one output.
int64_t OutExtent(const Layer& layer, const ConvWindow& w, size_t i, const Shape& input) {
  const int64_t reach = w.dilation[i] * (w.kernel[i] - 1) + 1;
  const int64_t out = (w.in[i] + 2 * w.pad[i] - reach) / w.stride[i] + 1;
  if (out < 1) {
    FailInputs(layer, StrCat("the kernel covers ", reach, " along spatial axis ", i,
                             ", but the input of shape ", ToString(input), " has only ", w.in[i],
                             " + 2 * ", w.pad[i],
                             " there; use a smaller kernel, more padding or a larger input"));
  }
  return out;
}

}  // namespace

void ValidateConvParam(const Layer& layer) {
  const ConvolutionParameter& p = layer.param().convolution_param();
  if (!p.has_num_output() || p.num_output() == 0) {
    FailField(layer, "convolution_param.num_output",
              "num_output is missing or 0; it is the number of output channels");
  }
  if (p.group() == 0) FailField(layer, "convolution_param.group", "group must be above 0");
  if (p.num_output() % p.group() != 0) {
    FailField(layer, "convolution_param.group",
              StrCat("num_output ", p.num_output(), " is not a multiple of group ", p.group()));
  }
  if (!(layer.param().fused_relu_param().negative_slope() >= 0)) {
    FailField(layer, "fused_relu_param.negative_slope",
              "negative_slope of a fused ReLU must be 0 or more");
  }
}

ConvGeometry MakeConvGeometry(const Layer& layer, const Shape& input) {
  const ConvolutionParameter& p = layer.param().convolution_param();
  ConvGeometry g;
  g.channel_axis = LayerAxis(layer, input, p.axis(), "convolution_param.axis");
  g.batch = input.count(0, g.channel_axis);
  g.groups = p.group();
  g.in_channels = input[g.channel_axis];
  g.out_channels = p.num_output();
  if (g.in_channels == 0 || g.in_channels % g.groups != 0) {
    FailField(
        layer, "convolution_param.group",
        StrCat("the input of shape ", ToString(input), " has ", g.in_channels, " channels on axis ",
               g.channel_axis, ", which is not a positive multiple of ", "group ", g.groups));
  }
  ConvWindow& w = g.window;
  w.axes = input.axes() - g.channel_axis - 1;
  const PerAxis kernel{"kernel_size",    "kernel",     p.kernel_size(), p.has_kernel_h(),
                       p.has_kernel_w(), p.kernel_h(), p.kernel_w(),    -1};
  const PerAxis stride{"stride",         "stride",     p.stride(),   p.has_stride_h(),
                       p.has_stride_w(), p.stride_h(), p.stride_w(), 1};
  const PerAxis pad{"pad", "pad", p.pad(), p.has_pad_h(), p.has_pad_w(), p.pad_h(), p.pad_w(), 0};
  const PerAxis dilation{"dilation", "dilation", p.dilation(), false, false, 1, 1, 1};
  w.kernel = ReadPerAxis(layer, kernel, w.axes);
  w.stride = ReadPerAxis(layer, stride, w.axes);
  w.pad = ReadPerAxis(layer, pad, w.axes);
  w.dilation = ReadPerAxis(layer, dilation, w.axes);
  RequirePositive(layer, w.kernel, w.axes, kernel);
  RequirePositive(layer, w.stride, w.axes, stride);
  for (size_t i = 0; i < static_cast<size_t>(w.axes); ++i) {
    w.in[i] = input[g.channel_axis + 1 + static_cast<int>(i)];
    w.out[i] = OutExtent(layer, w, i, input);
  }
  return g;
}

}  // namespace crema
