#include "layers/convolution/conv_geometry.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "layers/layer_axis.h"

namespace crema {
namespace {

using Sizes = ConvWindow::Sizes;
constexpr double kMostElements = 2147483647;  // of one blob

// DeformableConvolution has a message of its own.
bool IsDeformable(const Layer& layer) { return layer.param().type() == "DeformableConvolution"; }

// Returns the path of a field, for messages.
std::string Path(const Layer& layer, std::string_view field) {
  return StrCat(IsDeformable(layer) ? "deformable_convolution_param." : "convolution_param.",
                field);
}

// Allocates nothing: it is called for each batch.
std::string_view AxisPath(const Layer& layer) {
  return IsDeformable(layer) ? "deformable_convolution_param.axis" : "convolution_param.axis";
}

using RepeatedUint = google::protobuf::RepeatedField<uint32_t>;

// One quantity, given as `field` (no value, one for all axes, or one per axis) or as field_h and
// field_w.
struct PerAxis {
  std::string_view field;  // "kernel_size"
  std::string_view stem;   // "kernel"
  const RepeatedUint& values;
  bool has_h;
  bool has_w;
  uint32_t h;
  uint32_t w;
  int64_t missing;  // value if neither form is given; -1 means required
};

Sizes ReadPerAxis(const Layer& layer, const PerAxis& p, int axes) {
  Sizes result{};
  if (p.has_h || p.has_w) {
    if (axes != 2) {
      FailField(layer, Path(layer, StrCat(p.stem, p.has_h ? "_h" : "_w")),
                StrCat(p.stem, "_h and ", p.stem, "_w are for two spatial axes, but the input has ",
                       axes, "; use ", p.field));
    }
    if (!p.values.empty()) {
      FailField(layer, Path(layer, p.field),
                StrCat("give ", p.field, " or ", p.stem, "_h and ", p.stem, "_w, not both"));
    }
    result[0] = p.h;
    result[1] = p.w;
    return result;
  }
  const int count = p.values.size();
  const bool fits = count == 1 || count == axes || (count == 0 && p.missing >= 0);
  if (!fits) {
    FailField(layer, Path(layer, p.field),
              StrCat(p.field, count == 0 ? " is missing" : StrCat(" has ", count, " values"),
                     "; give one value, or one for each of the ", axes, " spatial axes"));
  }
  for (int i = 0; i < axes; ++i) {
    result[static_cast<size_t>(i)] = count == 0 ? p.missing : p.values[count == 1 ? 0 : i];
  }
  return result;
}

void RequirePositive(const Layer& layer, const Sizes& values, int axes, const PerAxis& p) {
  for (int i = 0; i < axes; ++i) {
    if (values[static_cast<size_t>(i)] > 0) continue;
    const bool other_form = p.has_h != p.has_w;
    const std::string missing = StrCat(p.stem, p.has_h ? "_w" : "_h");
    FailField(layer, Path(layer, other_form ? missing : p.field),
              other_form ? StrCat(missing, " is missing: ", p.stem, "_h and ", p.stem,
                                  "_w must both be given, and above 0")
                         : StrCat(p.field, " must be above 0"));
  }
}

int64_t DilatedKernel(const ConvWindow& w, size_t i) {
  return w.dilation[i] * (w.kernel[i] - 1) + 1;
}

std::string NameOfAxis(size_t axis, int axes) {
  if (axes == 2) return axis == 0 ? "the height" : "the width";
  return StrCat("spatial axis ", axis);
}

// Returns the output size along axis `i`. Division truncates as in Caffe: a kernel that exceeds the
// padded input by less than one step still gives one output. Throws if the size is below 1.
int64_t OutSize(const Layer& layer, const ConvWindow& w, size_t i, const Shape& input) {
  const int64_t reach = DilatedKernel(w, i);
  const int64_t out = (w.in[i] + 2 * w.pad[i] - reach) / w.stride[i] + 1;
  if (out < 1) {
    FailInputs(layer, StrCat("the kernel covers ", reach, " along ", NameOfAxis(i, w.axes),
                             ", but the input of shape ", ToString(input), " has only ", w.in[i],
                             " there, and ", w.pad[i], " of padding on each side",
                             "; use a smaller kernel, more padding or a larger input"));
  }
  return out;
}

// Reads all fields except `in` and `out`.
ConvWindow ReadWindow(const Layer& layer, int axes) {
  const ConvolutionParameter& p = layer.param().convolution_param();
  const PerAxis kernel{"kernel_size",    "kernel",     p.kernel_size(), p.has_kernel_h(),
                       p.has_kernel_w(), p.kernel_h(), p.kernel_w(),    -1};
  const PerAxis stride{"stride",         "stride",     p.stride(),   p.has_stride_h(),
                       p.has_stride_w(), p.stride_h(), p.stride_w(), 1};
  const PerAxis pad{"pad", "pad", p.pad(), p.has_pad_h(), p.has_pad_w(), p.pad_h(), p.pad_w(), 0};
  RepeatedUint holes;  // DeepLab's word for dilation
  if (p.has_hole()) holes.Add(p.hole());
  const bool has_hole = p.has_hole() || p.has_hole_h() || p.has_hole_w();
  if (has_hole && !p.dilation().empty()) {
    FailField(layer, Path(layer, "hole"), "hole is another word for dilation; give one of them");
  }
  const PerAxis dilation{"dilation", "dilation", p.dilation(), false, false, 1, 1, 1};
  const PerAxis hole{"hole",         "hole",     holes,      p.has_hole_h(),
                     p.has_hole_w(), p.hole_h(), p.hole_w(), 1};
  ConvWindow w;
  w.axes = axes;
  w.kernel = ReadPerAxis(layer, kernel, axes);
  w.stride = ReadPerAxis(layer, stride, axes);
  w.pad = ReadPerAxis(layer, pad, axes);
  w.dilation = ReadPerAxis(layer, has_hole ? hole : dilation, axes);
  RequirePositive(layer, w.kernel, axes, kernel);
  RequirePositive(layer, w.stride, axes, stride);
  RequirePositive(layer, w.dilation, axes, has_hole ? hole : dilation);
  double elements = 1;
  for (int i = 0; i < axes; ++i) elements *= static_cast<double>(w.kernel[static_cast<size_t>(i)]);
  if (elements > kMostElements) {
    FailField(layer, Path(layer, "kernel_size"),
              StrCat("a kernel of ", elements, " elements is larger than any blob may be"));
  }
  return w;
}

bool IsDepthwise(const Layer& layer) {
  const std::string& type = layer.param().type();
  return type == "ConvolutionDepthwise" || type == "DepthwiseConvolution";
}

// Returns one group per channel, even if `group` is not set. Throws if the parameters contradict
// that.
int64_t DepthwiseGroups(const Layer& layer, const Shape& input, int64_t channels) {
  const ConvolutionParameter& p = layer.param().convolution_param();
  if (p.group() != 1 && p.group() != channels) {
    FailField(layer, Path(layer, "group"),
              StrCat("the input of shape ", ToString(input), " has ", channels, " channels, and ",
                     layer.param().type(), " has one group for each; remove group ", p.group()));
  }
  if (channels > 0 && p.num_output() % channels != 0) {
    FailField(layer, Path(layer, "num_output"),
              StrCat("num_output ", p.num_output(), " is not a multiple of the ", channels,
                     " channels of the input of shape ", ToString(input)));
  }
  return channels;
}

void RequireGroups(const Layer& layer, const Shape& input, int axis, int64_t groups) {
  const int64_t channels = input[axis];
  if (channels != 0 && channels % groups == 0) return;
  FailField(layer, Path(layer, "group"),
            StrCat("the input of shape ", ToString(input), " has ", channels, " channels on axis ",
                   axis, ", which is not a positive multiple of group ", groups));
}

}  // namespace

void ValidateConvParam(const Layer& layer) {
  const ConvolutionParameter& p = layer.param().convolution_param();
  if (!p.has_num_output() || p.num_output() == 0) {
    FailField(layer, Path(layer, "num_output"),
              "num_output is missing or 0; it is the number of output channels");
  }
  if (p.group() == 0) FailField(layer, Path(layer, "group"), "group must be above 0");
  if (p.num_output() % p.group() != 0) {
    FailField(layer, Path(layer, "group"),
              StrCat("num_output ", p.num_output(), " is not a multiple of group ", p.group()));
  }
  if (!(p.negative_slope() >= 0)) {
    FailField(layer, Path(layer, "negative_slope"), "negative_slope of the ReLU must be 0 or more");
  }
  if (!(layer.param().fused_relu_param().negative_slope() >= 0)) {
    FailField(layer, "fused_relu_param.negative_slope",
              "negative_slope of a fused ReLU must be 0 or more");
  }
}

ConvWindow MakeConvWindow(const Layer& layer, const Shape& input, int channel_axis) {
  ConvWindow w = ReadWindow(layer, input.axes() - channel_axis - 1);
  for (size_t i = 0; i < static_cast<size_t>(w.axes); ++i) {
    w.in[i] = input[channel_axis + 1 + static_cast<int>(i)];
    w.out[i] = OutSize(layer, w, i, input);
  }
  return w;
}

ConvGeometry MakeConvGeometry(const Layer& layer, const Shape& input) {
  const ConvolutionParameter& p = layer.param().convolution_param();
  ConvGeometry g;
  g.channel_axis = LayerAxis(layer, input, p.axis(), AxisPath(layer));
  g.batch = input.count(0, g.channel_axis);
  g.in_channels = input[g.channel_axis];
  g.out_channels = p.num_output();
  g.groups = IsDepthwise(layer) ? DepthwiseGroups(layer, input, g.in_channels) : p.group();
  RequireGroups(layer, input, g.channel_axis, std::max<int64_t>(1, g.groups));
  g.window = MakeConvWindow(layer, input, g.channel_axis);
  return g;
}

ConvGeometry MakeDeconvGeometry(const Layer& layer, const Shape& input) {
  const ConvolutionParameter& p = layer.param().convolution_param();
  ConvGeometry g;
  g.channel_axis = LayerAxis(layer, input, p.axis(), AxisPath(layer));
  g.batch = input.count(0, g.channel_axis);
  g.in_channels = p.num_output();
  g.out_channels = input[g.channel_axis];
  g.groups = p.group();
  RequireGroups(layer, input, g.channel_axis, g.groups);
  ConvWindow& w = g.window;
  w = ReadWindow(layer, input.axes() - g.channel_axis - 1);
  for (size_t i = 0; i < static_cast<size_t>(w.axes); ++i) {
    w.out[i] = input[g.channel_axis + 1 + static_cast<int>(i)];
    const double estimate = static_cast<double>(w.stride[i]) * static_cast<double>(w.out[i]) +
                            static_cast<double>(DilatedKernel(w, i));
    if (estimate > 2 * kMostElements + 2 * static_cast<double>(w.pad[i])) {
      FailInputs(layer,
                 StrCat("the output would have about ", estimate, " elements along spatial axis ",
                        i, ", more than any blob may have; use a smaller stride or kernel"));
    }
    w.in[i] = w.stride[i] * (w.out[i] - 1) + DilatedKernel(w, i) - 2 * w.pad[i];
    if (w.out[i] > 0 && w.in[i] > 0) continue;
    FailInputs(layer, StrCat("the output would have ", w.in[i], " elements along spatial axis ", i,
                             ": ", w.stride[i], " * (", w.out[i], " - 1) + ", DilatedKernel(w, i),
                             " - 2 * ", w.pad[i], "; use less padding or a larger input"));
  }
  return g;
}

Shape ConvOutputShape(const Shape& input, int channel_axis, int64_t channels, int axes,
                      const ConvWindow::Sizes& spatial) {
  std::vector<int64_t> dims(input.dims().begin(), input.dims().begin() + channel_axis);
  dims.push_back(channels);
  dims.insert(dims.end(), spatial.begin(), spatial.begin() + axes);
  return Shape(std::span<const int64_t>(dims));
}

Shape ConvFilterShape(const ConvGeometry& g) {
  std::vector<int64_t> dims{g.out_channels, g.in_channels / g.groups};
  dims.insert(dims.end(), g.window.kernel.begin(), g.window.kernel.begin() + g.window.axes);
  return Shape(std::span<const int64_t>(dims));
}

// Computes in doubles, since products may overflow.
bool PaddedViewIsReasonable(const ConvGeometry& g) {
  double view = static_cast<double>(g.in_channels);
  double image = view;
  for (size_t i = 0; i < static_cast<size_t>(g.window.axes); ++i) {
    const ConvWindow& w = g.window;
    const auto kernel = static_cast<double>(w.kernel[i] - 1) * static_cast<double>(w.dilation[i]);
    view *= static_cast<double>(w.out[i] - 1) * static_cast<double>(w.stride[i]) + kernel + 1;
    image *= static_cast<double>(w.in[i]);
  }
  constexpr double kMost = 1 << 30;
  return view <= kMost && view <= 64 * image + (1 << 20);
}

void RequireEqualShapes(const Layer& layer, std::span<const BlobSpec> inputs) {
  for (const BlobSpec& other : inputs) {
    if (other.shape == inputs[0].shape) continue;
    FailInputs(layer, StrCat("all inputs must have the same shape, but two are ",
                             ToString(inputs[0].shape), " and ", ToString(other.shape)));
  }
}

}  // namespace crema
