// Convolutions.
#include <algorithm>
#include <array>

#include "core/strings.h"
#include "onnx/import_blocks.h"
#include "onnx/import_convert.h"
#include "onnx/import_fold.h"
#include "onnx/import_windows.h"

namespace crema {
namespace {

using Dims = std::vector<int64_t>;

Dims ListOf(const NodeImport& node, const char* name, size_t axes, int64_t fallback,
            int64_t least) {
  Dims list = node.IntList(name);
  if (list.empty()) list.assign(axes, fallback);
  if (list.size() != axes) {
    node.Refuse(StrCat(name, " has ", list.size(), " entries for ", axes, " axes"));
  }
  for (const int64_t entry : list) {
    if (entry < least || entry > (1 << 30)) node.Refuse(StrCat(name, " has an entry of ", entry));
  }
  return list;
}

// Adds one entry if they are equal, else all.
template <typename Add>
void AddEntries(const Dims& entries, int64_t fallback, const Add& add) {
  const bool equal =
      std::ranges::all_of(entries, [&](int64_t entry) { return entry == entries[0]; });
  if (equal && entries[0] == fallback) return;
  for (size_t i = 0; i < (equal ? 1 : entries.size()); ++i) add(static_cast<uint32_t>(entries[i]));
}

void SetConvolution(const Windows& windows, int64_t outputs, int64_t groups, bool bias,
                    LayerParameter* layer) {
  ConvolutionParameter* param = layer->mutable_convolution_param();
  param->set_num_output(static_cast<uint32_t>(outputs));
  if (!bias) param->set_bias_term(false);
  if (groups != 1) param->set_group(static_cast<uint32_t>(groups));
  AddEntries(windows.before, 0, [&](uint32_t v) { param->add_pad(v); });
  AddEntries(windows.kernel, 0, [&](uint32_t v) { param->add_kernel_size(v); });
  AddEntries(windows.stride, 1, [&](uint32_t v) { param->add_stride(v); });
  AddEntries(windows.dilation, 1, [&](uint32_t v) { param->add_dilation(v); });
}

// Returns pads of all axes: none for the batch and the channels.
Dims WithoutBatch(const Dims& spatial, int64_t factor = 1) {
  Dims dims = {0, 0};
  for (const int64_t value : spatial) dims.push_back(factor * value);
  return dims;
}

struct ConvolutionNode {
  OnnxBlob x;
  OnnxTensor weight;
  std::optional<OnnxTensor> bias;
  int64_t groups = 1;
};

ConvolutionNode Read(NodeImport& node) {
  ConvolutionNode parts{node.In(0), ToFloats(node.Weights(1, "weights")), {}, 1};
  parts.groups = node.Int("group", 1);
  if (parts.x.shape.axes() < 3) node.Refuse("takes batch, channels and spatial axes");
  if (static_cast<int>(parts.weight.dims.size()) != parts.x.shape.axes()) {
    node.Refuse("has weights of another number of axes than its input");
  }
  if (node.Has(2)) parts.bias = ToFloats(node.Weights(2, "bias"));
  if (parts.groups < 1 || parts.groups > parts.x.shape[1]) {
    node.Refuse(StrCat("has ", parts.groups, " groups"));
  }
  return parts;
}

std::vector<OnnxTensor> WeightsOf(const ConvolutionNode& parts, bool bias) {
  std::vector<OnnxTensor> weights = {parts.weight};
  if (bias) weights.push_back(*parts.bias);
  return weights;
}

// Pads and convolves.
OnnxBlob Convolve(NodeImport& node, ConvolutionNode parts) {
  const Dims kernel(parts.weight.dims.begin() + 2, parts.weight.dims.end());
  Windows windows = WindowsOf(node, parts.x.shape, kernel);
  if (!windows.IsSymmetric()) {
    parts.x = PadBlob(node, parts.x, WithoutBatch(windows.before), WithoutBatch(windows.after));
    windows.before.assign(windows.axes(), 0);
  }
  const bool bias = parts.bias.has_value();
  return node.Add(
      "Convolution", {parts.x},
      [&](LayerParameter* layer) {
        SetConvolution(windows, parts.weight.dims[0], parts.groups, bias, layer);
      },
      WeightsOf(parts, bias));
}

void ConvertConv(NodeImport& node) { node.Output(0, Convolve(node, Read(node))); }

// Whole numbers: both zero points are subtracted first.
void ConvertConvInteger(NodeImport& node) {
  ConvolutionNode parts{node.In(0), ToFloats(node.Weights(1, "weights")), {}, node.Int("group", 1)};
  if (static_cast<int>(parts.weight.dims.size()) != parts.x.shape.axes()) {
    node.Refuse("has weights of another number of axes than its input");
  }
  if (node.Has(2)) {
    const std::vector<float> zero = node.Floats(2, "zero point");
    if (zero.size() != 1) node.Refuse("has not one zero point of its input");
    if (zero[0] != 0) parts.x = PowerBlob(node, parts.x, 1, 1, -zero[0]);
  }
  if (node.Has(3)) {
    const OnnxTensor zero = ToFloats(node.Weights(3, "zero point of the weights"));
    if (zero.count() != 1 && zero.count() != parts.weight.dims[0]) {
      node.Refuse("has zero points that do not fit its weights");
    }
    Dims along(parts.weight.dims.size(), 1);
    along[0] = zero.count();
    const OnnxTensor all = BroadcastTensor(ReshapeTensor(zero, along), parts.weight.dims);
    std::vector<float> values = *parts.weight.floats;
    for (size_t i = 0; i < values.size(); ++i) values[i] -= (*all.floats)[i];
    parts.weight = MakeFloats(parts.weight.dims, std::move(values));
  }
  node.Output(0, WithType(Convolve(node, parts), onnx::TensorProto::INT32));
}

// Sets the pads of ConvTranspose, and what is missing at the end: zeros without input.
void SetTransposedPads(const NodeImport& node, const Shape& x, const Dims& extra,
                       Windows* windows) {
  const std::string mode = node.String("auto_pad", "NOTSET");
  const Dims sizes = node.IntList("output_shape");
  if (mode == "VALID") {
    windows->before.assign(windows->axes(), 0);
    windows->after = windows->before;
  }
  if (sizes.empty() && mode.compare(0, 4, "SAME") != 0) return;
  if (!sizes.empty() && sizes.size() < windows->axes()) node.Refuse("has a short output_shape");
  for (size_t i = 0; i < windows->axes(); ++i) {
    const int64_t in = x[static_cast<int>(i) + 2];
    const int64_t size =
        sizes.empty() ? in * windows->stride[i] : sizes[sizes.size() - windows->axes() + i];
    const int64_t total = windows->stride[i] * (in - 1) + extra[i] + windows->Reach(i) - size;
    const int64_t less = total >> 1;  // rounded down, also below 0
    const bool upper = mode == "SAME_UPPER";
    windows->before[i] = upper ? less : total - less;
    windows->after[i] = total - windows->before[i];
  }
}

void ConvertConvTranspose(NodeImport& node) {
  ConvolutionNode parts = Read(node);
  const Dims kernel(parts.weight.dims.begin() + 2, parts.weight.dims.end());
  Windows windows = WindowsOf(node, parts.x.shape, kernel);
  const Dims extra = ListOf(node, "output_padding", windows.axes(), 0, 0);
  SetTransposedPads(node, parts.x.shape, extra, &windows);
  const int64_t outputs = parts.weight.dims[1] * parts.groups;
  Dims after;
  for (size_t i = 0; i < windows.axes(); ++i) after.push_back(extra[i] - windows.after[i]);
  const bool plain = windows.IsSymmetric() &&
                     std::ranges::all_of(extra, [](int64_t e) { return e == 0; }) &&
                     std::ranges::all_of(windows.before, [](int64_t pad) { return pad >= 0; });
  const Dims before = windows.before;
  if (!plain) windows.before.assign(windows.axes(), 0);
  const bool bias = plain && parts.bias.has_value();
  OnnxBlob y = node.Add(
      "Deconvolution", {parts.x},
      [&](LayerParameter* layer) { SetConvolution(windows, outputs, parts.groups, bias, layer); },
      WeightsOf(parts, bias));
  if (!plain) {
    y = PadBlob(node, y, WithoutBatch(before, -1), WithoutBatch(after));
    if (parts.bias) y = node.Add("Bias", {y}, {}, {*parts.bias});
  }
  node.Output(0, y);
}

// A convolution over time of each channel, with the last inputs of the call before.
void ConvertCausalConv(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const OnnxTensor weight = ToFloats(node.Weights(1, "weights"));
  if (x.shape.axes() != 3 || weight.dims.size() != 3) node.Refuse("takes three axes");
  const int64_t before = weight.dims[2] - 1;
  OnnxBlob padded;
  if (node.Has(3)) {
    const OnnxBlob past = node.In(3);
    padded = node.Add("Concat", {past, x},
                      [](LayerParameter* layer) { layer->mutable_concat_param()->set_axis(2); });
  } else {
    padded = PadBlob(node, x, {0, 0, before}, {0, 0, 0});
  }
  std::vector<OnnxTensor> weights = {weight};
  if (node.Has(2)) weights.push_back(ToFloats(node.Weights(2, "bias")));
  const Windows windows{{weight.dims[2]}, {1}, {1}, {0}, {0}};
  OnnxBlob y = node.Add(
      "Convolution", {padded},
      [&](LayerParameter* layer) {
        SetConvolution(windows, x.shape[1], x.shape[1], node.Has(2), layer);
      },
      weights);
  const std::string activation = node.String("activation", "none");
  if (activation == "silu" || activation == "swish") y = node.Add("SiLU", {y});
  node.Output(0, y);
  if (node.Wants(1)) {
    node.Output(1, CutBlob(node, padded, 2, padded.shape[2] - before, before));
  }
}

}  // namespace

Windows WindowsOf(const NodeImport& node, const Shape& input, std::vector<int64_t> kernel) {
  if (input.axes() < 3) node.Refuse("takes batch, channels and spatial axes");
  const auto axes = static_cast<size_t>(input.axes() - 2);
  Windows windows;
  if (node.HasAttribute("kernel_shape")) kernel = ListOf(node, "kernel_shape", axes, 1, 1);
  if (kernel.size() != axes) node.Refuse("has no kernel_shape for its axes");
  windows.kernel = std::move(kernel);
  windows.stride = ListOf(node, "strides", axes, 1, 1);
  windows.dilation = ListOf(node, "dilations", axes, 1, 1);
  const Dims pads = ListOf(node, "pads", 2 * axes, 0, -(1 << 30));
  windows.before.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(axes));
  windows.after.assign(pads.begin() + static_cast<std::ptrdiff_t>(axes), pads.end());
  const std::string mode = node.String("auto_pad", "NOTSET");
  if (mode == "NOTSET" || mode.empty()) return windows;
  for (size_t i = 0; i < axes; ++i) {
    const int64_t size = input[static_cast<int>(i) + 2];
    const int64_t count = (size + windows.stride[i] - 1) / windows.stride[i];
    const int64_t total =
        mode == "VALID"
            ? 0
            : std::max<int64_t>((count - 1) * windows.stride[i] + windows.Reach(i) - size, 0);
    windows.before[i] = mode == "SAME_LOWER" ? total - total / 2 : total / 2;
    windows.after[i] = total - windows.before[i];
  }
  return windows;
}

void AddConvolutionConverters(ConverterTable* table) {
  (*table)["Conv"] = ConvertConv;
  (*table)["CausalConvWithState"] = ConvertCausalConv;
  (*table)["ConvInteger"] = ConvertConvInteger;
  (*table)["ConvTranspose"] = ConvertConvTranspose;
}

}  // namespace crema
