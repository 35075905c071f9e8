// Fourier transforms as products with constant matrices, and other signals of given sizes.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/strings.h"
#include "onnx/import_blocks.h"
#include "onnx/import_convert.h"
#include "onnx/import_fold.h"

namespace crema {
namespace {

// Elements of the matrix of a transform.
constexpr int64_t kMostMatrix = int64_t{1} << 22;

struct Transform {
  int64_t length = 0;   // of the signal
  int64_t inputs = 0;   // numbers along the axis
  int64_t outputs = 0;  // numbers along the axis of the result
  bool complex = false;
  bool inverse = false;
  bool one_sided = false;
};

// One entry of the matrix: the share of part `from` (0 real, 1 imaginary) of input n in part `to`
// of output k.
double Entry(const Transform& transform, int64_t k, int64_t to, int64_t n, int64_t from) {
  const double turns = static_cast<double>(k * n % transform.length);
  const double angle = 2 * std::numbers::pi * turns / static_cast<double>(transform.length);
  const double sine = transform.inverse ? std::sin(angle) : -std::sin(angle);
  double value = from == to ? std::cos(angle) : from == 0 ? sine : -sine;
  if (!transform.inverse) return value;
  // The missing half of a real signal is the conjugate of the first.
  const bool alone = n == 0 || 2 * n == transform.length;
  if (transform.one_sided && !alone) value *= 2;
  return value / static_cast<double>(transform.length);
}

OnnxTensor MatrixOf(const Transform& transform) {
  const int64_t in_parts = transform.complex ? 2 : 1;
  const int64_t out_parts = transform.inverse && transform.one_sided ? 1 : 2;
  std::vector<float> values;
  for (int64_t k = 0; k < transform.outputs; ++k) {
    for (int64_t to = 0; to < out_parts; ++to) {
      for (int64_t n = 0; n < transform.inputs; ++n) {
        for (int64_t from = 0; from < in_parts; ++from) {
          values.push_back(static_cast<float>(Entry(transform, k, to, n, from)));
        }
      }
    }
  }
  return MakeFloats({transform.outputs * out_parts, transform.inputs * in_parts},
                    std::move(values));
}

OnnxBlob Multiply(NodeImport& node, const OnnxBlob& x, const OnnxTensor& matrix) {
  return InnerProductBlob(node, x, matrix);
}

Transform ReadTransform(const NodeImport& node, int64_t size, int64_t parts) {
  Transform transform;
  transform.complex = parts == 2;
  transform.inverse = node.Int("inverse", 0) != 0;
  transform.one_sided = node.Int("onesided", 0) != 0;
  const bool half = transform.inverse && transform.one_sided;
  transform.length = half ? 2 * (size - 1) : size;
  if (node.Has(1)) {
    const Dims length = node.Ints(1, "dft_length");
    if (length.size() != 1) node.Refuse("has not one dft_length");
    transform.length = length[0];
  }
  if (transform.length < 1 || transform.length > (1 << 20)) node.Refuse("has no length");
  transform.inputs = half ? transform.length / 2 + 1 : transform.length;
  transform.outputs = transform.one_sided && !half ? transform.length / 2 + 1 : transform.length;
  if (4 * transform.inputs * transform.outputs > kMostMatrix) {
    node.Refuse(StrCat("is of length ", transform.length, ", which is too long"));
  }
  return transform;
}

void ConvertDFT(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const int last = x.shape.axes() - 1;
  if (last < 1 || (x.shape[last] != 1 && x.shape[last] != 2)) {
    node.Refuse("takes real or complex numbers on the last axis");
  }
  int64_t given = node.Int("axis", node.opset() < 20 ? 1 : -2);
  if (node.Has(2)) {
    const Dims axes = node.Ints(2, "axis");
    if (axes.size() != 1) node.Refuse("has not one axis");
    given = axes[0];
  }
  const int64_t axis = CanonicalAxes(node, {given}, static_cast<size_t>(x.shape.axes()))[0];
  if (axis == last) node.Refuse("transforms the last axis");
  const Transform transform = ReadTransform(node, x.shape[static_cast<int>(axis)], x.shape[last]);
  Dims order;  // the axis becomes the last but one
  for (int i = 0; i < last; ++i) {
    if (i != axis) order.push_back(i);
  }
  order.push_back(axis);
  order.push_back(last);
  OnnxBlob y = PermuteBlob(node, x, order);
  Dims before(order.size(), 0);
  Dims after(order.size(), 0);
  after[order.size() - 2] = transform.inputs - x.shape[static_cast<int>(axis)];
  y = PadBlob(node, y, before, after);
  Dims dims = DimsOf(y);
  Dims flat(dims.begin(), dims.end() - 2);
  flat.push_back(dims[dims.size() - 2] * dims.back());
  y = Multiply(node, ReshapeBlob(node, y, flat), MatrixOf(transform));
  dims[dims.size() - 2] = transform.outputs;
  dims.back() = transform.inverse && transform.one_sided ? 1 : 2;
  y = ReshapeBlob(node, y, dims);
  node.Output(0, PermuteBlobBack(node, y, order));
}

// Filters of a transform of frames: 2 * bins x parts x frame length.
OnnxTensor FrameFilters(const Transform& transform, const std::vector<float>& window) {
  std::vector<float> values;
  for (int64_t k = 0; k < transform.outputs; ++k) {
    for (int64_t to = 0; to < 2; ++to) {
      for (int64_t from = 0; from < (transform.complex ? 2 : 1); ++from) {
        for (int64_t n = 0; n < transform.length; ++n) {
          const double share = Entry(transform, k, to, n, from);
          values.push_back(static_cast<float>(share * double{window[static_cast<size_t>(n)]}));
        }
      }
    }
  }
  return MakeFloats({2 * transform.outputs, transform.complex ? 2 : 1, transform.length},
                    std::move(values));
}

// Transforms of frames of a signal: a convolution over time.
void ConvertSTFT(NodeImport& node) {
  OnnxBlob x = node.In(0);
  if (x.shape.axes() == 2) x = ReshapeBlob(node, x, {x.shape[0], x.shape[1], 1});
  if (x.shape.axes() != 3 || (x.shape[2] != 1 && x.shape[2] != 2)) {
    node.Refuse("takes batch, time, and real or complex numbers");
  }
  const Dims step = node.Ints(1, "frame_step");
  std::vector<float> window = node.Has(2) ? node.Floats(2, "window") : std::vector<float>{};
  Transform transform;
  transform.complex = x.shape[2] == 2;
  transform.one_sided = node.Int("onesided", 1) != 0;
  transform.length = static_cast<int64_t>(window.size());
  if (node.Has(3)) {
    const Dims length = node.Ints(3, "frame_length");
    if (length.size() != 1) node.Refuse("has not one frame_length");
    transform.length = length[0];
  }
  if (transform.length < 1 || transform.length > x.shape[1] || step.size() != 1 || step[0] < 1 ||
      step[0] > (1 << 30)) {
    node.Refuse("has frames that do not fit its signal");
  }
  if (window.empty()) window.assign(static_cast<size_t>(transform.length), 1);
  if (static_cast<int64_t>(window.size()) != transform.length) {
    node.Refuse("has a window of another length than its frames");
  }
  if (transform.complex && transform.one_sided)
    node.Refuse("halves the transform of complex numbers");
  transform.outputs = transform.one_sided ? transform.length / 2 + 1 : transform.length;
  if (4 * transform.length * transform.outputs > kMostMatrix) {
    node.Refuse(StrCat("has frames of ", transform.length, ", which is too long"));
  }
  const OnnxBlob y = node.Add("Convolution", {PermuteBlob(node, x, {0, 2, 1})},
                              [&](LayerParameter* layer) {
                                ConvolutionParameter* param = layer->mutable_convolution_param();
                                param->set_num_output(static_cast<uint32_t>(2 * transform.outputs));
                                param->set_bias_term(false);
                                param->add_kernel_size(static_cast<uint32_t>(transform.length));
                                param->add_stride(static_cast<uint32_t>(step[0]));
                              },
                              {FrameFilters(transform, window)});
  const OnnxBlob apart = ReshapeBlob(node, y, {y.shape[0], transform.outputs, 2, y.shape[2]});
  node.Output(0, PermuteBlob(node, apart, {0, 3, 1, 2}));
}

// Position i of `size` in -1..1.
float GridPlace(int64_t i, int64_t size, bool corners) {
  const auto place = static_cast<float>(i);
  const auto count = static_cast<float>(size);
  return corners ? 2 * place / (count - 1) - 1 : (2 * place + 1) / count - 1;
}

// The homogeneous positions of all elements, times theta.
void ConvertAffineGrid(NodeImport& node) {
  const OnnxBlob theta = node.In(0);
  Dims sizes = node.Ints(1, "size");
  if (sizes.size() < 4 || sizes.size() > 5 || theta.shape.axes() != 3) node.Refuse("takes images");
  sizes.erase(sizes.begin(), sizes.begin() + 2);
  const int64_t count = BoundedCount(sizes);
  if (count > kMostMatrix || count < 1) node.Refuse("has too large a grid");
  const bool corners = node.Int("align_corners", 0) != 0;
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    for (size_t a = sizes.size(); a-- > 0;) {
      values.push_back(GridPlace(rest % sizes[a], sizes[a], corners));
      rest /= sizes[a];
    }
    values.push_back(1);
  }
  const auto parts = static_cast<int64_t>(sizes.size()) + 1;
  const OnnxBlob places = node.AddConstant(MakeFloats({1, count, parts}, std::move(values)));
  Dims batch = {theta.shape[0], count, parts};
  const OnnxBlob y =
      node.Add("MatMul", {ExpandBlob(node, places, batch), theta},
               [](LayerParameter* layer) { layer->mutable_matmul_param()->set_transpose_b(true); });
  Dims dims = {theta.shape[0]};
  dims.insert(dims.end(), sizes.begin(), sizes.end());
  dims.push_back(parts - 1);
  node.Output(0, ReshapeBlob(node, y, dims));
}

// a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N).
void Window(NodeImport& node, double a0, double a1, double a2) {
  const Dims size = node.Ints(0, "size");
  if (size.size() != 1 || size[0] < 0 || size[0] > kMostMatrix) node.Refuse("has no size");
  const bool periodic = node.Int("periodic", 1) != 0;
  const auto length = static_cast<double>(periodic ? size[0] : size[0] - 1);
  std::vector<float> values;
  for (int64_t n = 0; n < size[0]; ++n) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(n) / length;
    values.push_back(static_cast<float>(a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle)));
  }
  const auto type = static_cast<int>(node.Int("output_datatype", onnx::TensorProto::FLOAT));
  node.Output(0, CastTensor(MakeFloats({size[0]}, std::move(values)), type));
}

void ConvertHann(NodeImport& node) { Window(node, 0.5, 0.5, 0); }
void ConvertHamming(NodeImport& node) { Window(node, 25.0 / 46, 21.0 / 46, 0); }
void ConvertBlackman(NodeImport& node) { Window(node, 0.42, 0.5, 0.08); }

}  // namespace

void AddSignalConverters(ConverterTable* table) {
  (*table)["DFT"] = ConvertDFT;
  (*table)["STFT"] = ConvertSTFT;
  (*table)["AffineGrid"] = ConvertAffineGrid;
  (*table)["HannWindow"] = ConvertHann;
  (*table)["HammingWindow"] = ConvertHamming;
  (*table)["BlackmanWindow"] = ConvertBlackman;
}

}  // namespace crema
