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

std::string AutoPadOf(const NodeImport& node) {
  return node.Choice("auto_pad", {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"});
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
  ListOf(node, "pads", 2 * windows.axes(), 0, 0);  // refuses negative ones
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
    if (node.ShapeOf(2).count() != 1) node.Refuse("has not one zero point of its input");
    if (node.Constant(2) == nullptr) {  // as DynamicQuantizeLinear computes it
      const OnnxBlob zero = ReshapeBlob(node, node.In(2), {});
      parts.x = BinaryBlob(node, BinaryParameter::SUB, parts.x, zero);
    } else if (const float zero = node.Floats(2, "zero point")[0]; zero != 0) {
      parts.x = PowerBlob(node, parts.x, 1, 1, -zero);
    }
  }
  if (node.Has(3)) {
    const auto centred = LessZeroPoints(parts.weight, node.Weights(3, "zero point of the weights"));
    if (!centred) node.Refuse("has zero points that do not fit its weights");
    parts.weight = *centred;
  }
  node.Output(0, WithType(Convolve(node, parts), onnx::TensorProto::INT32));
}

// Sets the pads of ConvTranspose, and what is missing at the end: zeros without input.
void SetTransposedPads(const NodeImport& node, const Shape& x, const Dims& extra,
                       Windows* windows) {
  const std::string mode = AutoPadOf(node);
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
    padded = ConcatBlob(node, {past, x}, 2);
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
  const std::string activation = node.Choice("activation", {"none", "silu", "swish"});
  if (activation == "silu" || activation == "swish") y = node.Add("SiLU", {y});
  node.Output(0, y);
  if (node.Wants(1)) {
    node.Output(1, CutBlob(node, padded, 2, padded.shape[2] - before, before));
  }
}

// Filters of a single 1: the elements of a window go to their places.
OnnxTensor PlaceFilters(int64_t channels, const Dims& kernel) {
  const int64_t places = BoundedCount(kernel);
  std::vector<float> values(static_cast<size_t>(channels * places * places), 0);
  for (int64_t i = 0; i < channels * places; ++i) {
    values[static_cast<size_t>(i * places + i % places)] = 1;
  }
  Dims dims = {channels * places, 1};
  dims.insert(dims.end(), kernel.begin(), kernel.end());
  return MakeFloats(dims, std::move(values));
}

// Adds the elements of windows at their places in an image: a transposed convolution.
void ConvertCol2Im(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const Dims image = node.Ints(1, "image_shape");
  const Dims kernel = node.Ints(2, "block_shape");
  const size_t axes = image.size();
  if (x.shape.axes() != 3 || axes == 0 || kernel.size() != axes || axes > 8) {
    node.Refuse("takes batch, elements and windows, and as many sizes of the image as of a window");
  }
  const auto fits = [](int64_t size) { return size > 0 && size < (1 << 24); };
  if (!std::ranges::all_of(image, fits) || !std::ranges::all_of(kernel, fits)) {
    node.Refuse("has sizes below 1 or too large ones");
  }
  Windows windows{kernel, ListOf(node, "strides", axes, 1, 1),
                  ListOf(node, "dilations", axes, 1, 1), Dims(axes, 0), Dims(axes, 0)};
  const Dims pads = ListOf(node, "pads", 2 * axes, 0, 0);
  const int64_t places = BoundedCount(kernel);
  const int64_t channels = x.shape[1] / places;
  if (x.shape[1] % places != 0 || BoundedCount({channels, places, places}) > kMostMadeElements) {
    node.Refuse("has windows that do not fit its elements, or too large ones");
  }
  Dims apart = {x.shape[0], x.shape[1]};
  Dims before;
  Dims after;
  for (size_t i = 0; i < axes; ++i) {
    const int64_t room = image[i] + pads[i] + pads[axes + i] - windows.Reach(i);
    if (room < 0) node.Refuse("has a window that is larger than its padded image");
    apart.push_back(room / windows.stride[i] + 1);
    before.push_back(-pads[i]);
    const int64_t whole = room / windows.stride[i] * windows.stride[i] + windows.Reach(i);
    after.push_back(image[i] + pads[i] - whole);
  }
  if (BoundedCount(apart) != x.shape.count()) node.Refuse("has another number of windows");
  const OnnxBlob y = node.Add(
      "Deconvolution", {ReshapeBlob(node, x, apart)},
      [&](LayerParameter* layer) { SetConvolution(windows, channels, channels, false, layer); },
      {PlaceFilters(channels, kernel)});
  node.Output(0, PadBlob(node, y, WithoutBatch(before), WithoutBatch(after)));
}

// One coordinate of the grid of DeformConv (0: y, 1: x): N x K x out x out x 1. Position p of
// `size` is (2 p + 1) / size - 1 in the grid. `offset` is N x 2 K x out x out, with y before x.
OnnxBlob DeformedPlaces(NodeImport& node, const OnnxBlob& offset, const Windows& windows,
                        int64_t size, size_t axis) {
  const int64_t places = BoundedCount(windows.kernel);
  const int64_t outputs = offset.shape[static_cast<int>(axis) + 2];
  const auto scale = 2 / static_cast<float>(size);
  std::vector<float> base;
  for (int64_t k = 0; k < places; ++k) {
    const int64_t in_window = axis == 0 ? k / windows.kernel[1] : k % windows.kernel[1];
    for (int64_t i = 0; i < outputs; ++i) {
      const int64_t place =
          i * windows.stride[axis] - windows.before[axis] + in_window * windows.dilation[axis];
      base.push_back((static_cast<float>(place) + 0.5F) * scale - 1);
    }
  }
  Dims dims = {1, places, 1, 1, 1};
  dims[axis + 2] = outputs;
  const Dims apart = {offset.shape[0], places, 2, offset.shape[2], offset.shape[3]};
  OnnxBlob y = ReshapeBlob(node, offset, apart);
  y = CutBlob(node, y, 2, static_cast<int64_t>(axis), 1);
  y = ReshapeBlob(node, y, {apart[0], places, apart[3], apart[4], 1});
  y = PowerBlob(node, y, 1, scale, 0);
  return BinaryBlob(node, BinaryParameter::ADD, y,
                    node.AddConstant(MakeFloats(dims, std::move(base))));
}

// The elements that each window of some channels reads, as N x (channels K) x out x out.
OnnxBlob DeformedWindows(NodeImport& node, const OnnxBlob& x, const OnnxBlob& offset,
                         const OnnxBlob* mask, const Windows& windows) {
  const int64_t places = BoundedCount(windows.kernel);
  const int64_t high = offset.shape[2];
  const int64_t wide = offset.shape[3];
  const OnnxBlob rows = DeformedPlaces(node, offset, windows, x.shape[2], 0);
  const OnnxBlob columns = DeformedPlaces(node, offset, windows, x.shape[3], 1);
  const OnnxBlob grid = ConcatBlob(node, {columns, rows}, 4);
  OnnxBlob y =
      node.Add("GridSample", {x, ReshapeBlob(node, grid, {x.shape[0], places * high, wide, 2})});
  if (mask != nullptr) {
    y = ReshapeBlob(node, y, {x.shape[0], x.shape[1], places, high, wide});
    y = BinaryBlob(node, BinaryParameter::MUL, y,
                   ReshapeBlob(node, *mask, {x.shape[0], 1, places, high, wide}));
  }
  return ReshapeBlob(node, y, {x.shape[0], x.shape[1] * places, high, wide});
}

// Samples of the input at displaced places, and their products with the weights.
void ConvertDeformConv(NodeImport& node) {
  ConvolutionNode parts{node.In(0), ToFloats(node.Weights(1, "weights")), {}, node.Int("group", 1)};
  const OnnxBlob offset = node.In(2);
  if (node.Has(3)) parts.bias = ToFloats(node.Weights(3, "bias"));
  const OnnxBlob mask = node.Has(4) ? node.In(4) : OnnxBlob{};
  const Dims weight = parts.weight.dims;
  if (parts.x.shape.axes() != 4 || weight.size() != 4 || offset.shape.axes() != 4) {
    node.Refuse("takes two spatial axes");
  }
  const Windows windows = WindowsOf(node, parts.x.shape, {weight[2], weight[3]});
  const int64_t places = weight[2] * weight[3];
  const int64_t parted = node.Int("offset_group", 1);
  const int64_t channels = parts.x.shape[1];
  if (parted < 1 || channels % parted != 0 || offset.shape[1] != 2 * parted * places ||
      (node.Has(4) && (mask.shape.axes() != 4 || mask.shape[1] != parted * places))) {
    node.Refuse("has offsets or a mask of other channels");
  }
  Dims sizes = {parts.x.shape[0]};
  for (size_t i = 0; i < 2; ++i) {
    const int64_t room = parts.x.shape[static_cast<int>(i) + 2] + windows.before[i] +
                         windows.after[i] - windows.Reach(i);
    sizes.push_back(room < 0 ? 0 : room / windows.stride[i] + 1);
  }
  if (Dims{offset.shape[0], offset.shape[2], offset.shape[3]} != sizes ||
      BoundedCount({places, offset.shape[2] + offset.shape[3]}) > kMostMadeElements) {
    node.Refuse("has offsets for another number of windows, or too many");
  }
  std::vector<OnnxBlob> groups;
  for (int64_t g = 0; g < parted; ++g) {
    const int64_t size = channels / parted;
    const OnnxBlob own = node.Has(4) ? CutBlob(node, mask, 1, g * places, places) : OnnxBlob{};
    groups.push_back(DeformedWindows(node, CutBlob(node, parts.x, 1, g * size, size),
                                     CutBlob(node, offset, 1, 2 * g * places, 2 * places),
                                     node.Has(4) ? &own : nullptr, windows));
  }
  parts.x = parted == 1 ? groups[0] : ConcatBlob(node, groups, 1);
  parts.weight = ReshapeTensor(parts.weight, {weight[0], weight[1] * places, 1, 1});
  const bool bias = parts.bias.has_value();
  const Windows single{{1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}};
  node.Output(0, node.Add(
                     "Convolution", {parts.x},
                     [&](LayerParameter* layer) {
                       SetConvolution(single, weight[0], parts.groups, bias, layer);
                     },
                     WeightsOf(parts, bias)));
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
  const std::string mode = AutoPadOf(node);
  if (mode == "NOTSET") return windows;
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
  (*table)["Col2Im"] = ConvertCol2Im;
  (*table)["CausalConvWithState"] = ConvertCausalConv;
  (*table)["ConvInteger"] = ConvertConvInteger;
  (*table)["DeformConv"] = ConvertDeformConv;
  (*table)["ConvTranspose"] = ConvertConvTranspose;
}

}  // namespace crema
