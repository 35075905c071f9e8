// Pooling.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/strings.h"
#include "onnx/import_blocks.h"
#include "onnx/import_convert.h"
#include "onnx/import_fold.h"
#include "onnx/import_windows.h"

namespace crema {
namespace {

// Limits what a few bytes in a file can make.
constexpr int64_t kMostWindowElements = int64_t{1} << 28;
// Slices that the largest elements of a window with dilations are taken of.
constexpr int64_t kMostSlices = 8;

bool AllAre(const Dims& entries, int64_t value) {
  return std::ranges::all_of(entries, [value](int64_t entry) { return entry == value; });
}

void SetWindows(const Windows& windows, const Dims& pads, PoolingParameter* param) {
  const auto number = [](int64_t value) { return static_cast<uint32_t>(value); };
  if (windows.axes() != 2) {
    for (size_t i = 0; i < windows.axes(); ++i) {
      param->add_kernel_nd(number(windows.kernel[i]));
      param->add_stride_nd(number(windows.stride[i]));
      param->add_pad_nd(number(pads[i]));
    }
    return;
  }
  const auto set = [&](const Dims& values, int64_t fallback, auto one, auto first, auto second) {
    if (AllAre(values, fallback)) return;
    if (values[0] == values[1]) return (param->*one)(number(values[0]));
    (param->*first)(number(values[0]));
    (param->*second)(number(values[1]));
  };
  using P = PoolingParameter;
  set(windows.kernel, 0, &P::set_kernel_size, &P::set_kernel_h, &P::set_kernel_w);
  set(windows.stride, 1, &P::set_stride, &P::set_stride_h, &P::set_stride_w);
  set(pads, 0, &P::set_pad, &P::set_pad_h, &P::set_pad_w);
}

// Number of windows along an axis. A last window that begins in the padding is left out.
int64_t WindowCount(const Windows& windows, size_t axis, int64_t size, bool ceil) {
  const int64_t padded = size + windows.before[axis] + windows.after[axis];
  const int64_t stride = windows.stride[axis];
  const int64_t room = padded - windows.Reach(axis);
  if (room < 0) return ceil && room > -stride ? 1 : 0;
  int64_t count = (room + (ceil ? stride - 1 : 0)) / stride + 1;
  if (ceil && (count - 1) * stride >= size + windows.before[axis]) --count;
  return count;
}

bool UsesCeil(const NodeImport& node) { return node.Int("ceil_mode", 0) != 0; }

// The layer can have these pads itself, and has as many windows.
bool IsPlain(const NodeImport& node, const Windows& windows, const Shape& x) {
  const bool ceil = UsesCeil(node);
  for (size_t i = 0; i < windows.axes(); ++i) {
    if (windows.before[i] < 0 || windows.before[i] >= windows.kernel[i]) return false;
    // Without pads, the layer does not leave out a window beyond the input.
    const int64_t size = x[static_cast<int>(i) + 2];
    const int64_t count = WindowCount(windows, i, size, ceil);
    if (ceil &&
        count * windows.stride[i] <
            size + windows.before[i] + windows.after[i] - windows.Reach(i) + windows.stride[i] &&
        windows.before[i] == 0) {
      return false;
    }
  }
  return windows.IsSymmetric();
}

Dims CountsOf(const NodeImport& node, const Windows& windows, const Shape& x) {
  Dims counts;
  for (size_t i = 0; i < windows.axes(); ++i) {
    counts.push_back(WindowCount(windows, i, x[static_cast<int>(i) + 2], UsesCeil(node)));
    if (counts.back() < 1) node.Refuse("has a window that is larger than its padded input");
  }
  Dims all = counts;
  all.insert(all.end(), windows.kernel.begin(), windows.kernel.end());
  if (BoundedCount(all) > kMostWindowElements) {
    node.Refuse(StrCat("has windows of more than ", kMostWindowElements, " elements together"));
  }
  return counts;
}

// Pads the input so that all windows lie inside: `counts` windows and no padding of the layer.
OnnxBlob PadToWindows(NodeImport& node, const OnnxBlob& x, const Windows& windows,
                      const Dims& counts, float value) {
  Dims before = {0, 0};
  Dims after = {0, 0};
  for (size_t i = 0; i < windows.axes(); ++i) {
    const int64_t used = (counts[i] - 1) * windows.stride[i] + windows.Reach(i);
    before.push_back(windows.before[i]);
    after.push_back(used - x.shape[static_cast<int>(i) + 2] - windows.before[i]);
  }
  return PadBlob(node, x, before, after, value);
}

std::vector<OnnxBlob> Pool(NodeImport& node, const OnnxBlob& x, PoolingParameter::PoolMethod method,
                           const Windows& windows, const Dims& pads, bool ceil, size_t tops,
                           bool include_pad = true) {
  return node.AddAll("Pooling", {x}, tops, [&](LayerParameter* layer) {
    PoolingParameter* param = layer->mutable_pooling_param();
    param->set_pool(method);
    SetWindows(windows, pads, param);
    if (!ceil) param->set_round_mode(PoolingParameter::FLOOR);
    if (!include_pad) param->set_avg_include_pad(false);
  });
}

// Elements of the input that each window covers, divided into the size of the window.
OnnxTensor WindowShares(const Windows& windows, const Dims& counts, const Shape& x,
                        bool include_pad) {
  std::vector<float> shares = {1};
  Dims dims = {1, 1};
  for (size_t i = 0; i < windows.axes(); ++i) {
    const int64_t size = x[static_cast<int>(i) + 2];
    std::vector<float> next;
    for (const float share : shares) {
      for (int64_t w = 0; w < counts[i]; ++w) {
        int64_t covered = 0;
        for (int64_t k = 0; k < windows.kernel[i]; ++k) {
          const int64_t place = w * windows.stride[i] - windows.before[i] + k * windows.dilation[i];
          const bool inside =
              include_pad ? place < size + windows.after[i] : place >= 0 && place < size;
          covered += inside ? 1 : 0;
        }
        next.push_back(share * static_cast<float>(windows.kernel[i]) /
                       static_cast<float>(std::max<int64_t>(covered, 1)));
      }
    }
    shares = std::move(next);
    dims.push_back(counts[i]);
  }
  return MakeFloats(dims, std::move(shares));
}

// Sums of elements that lie apart: a convolution of each channel with ones.
OnnxBlob DilatedMeans(NodeImport& node, const OnnxBlob& x, const Windows& windows) {
  Dims dims = {x.shape[1], 1};
  dims.insert(dims.end(), windows.kernel.begin(), windows.kernel.end());
  if (BoundedCount(dims) > kMostMadeElements) node.Refuse("has too large windows");
  int64_t count = 1;
  for (const int64_t size : windows.kernel) count *= size;
  const OnnxTensor one = MakeFloats({1}, {1 / static_cast<float>(count)});
  return node.Add("Convolution", {x},
                  [&](LayerParameter* layer) {
                    ConvolutionParameter* param = layer->mutable_convolution_param();
                    param->set_num_output(static_cast<uint32_t>(x.shape[1]));
                    param->set_group(static_cast<uint32_t>(x.shape[1]));
                    param->set_bias_term(false);
                    for (size_t i = 0; i < windows.axes(); ++i) {
                      param->add_kernel_size(static_cast<uint32_t>(windows.kernel[i]));
                      param->add_stride(static_cast<uint32_t>(windows.stride[i]));
                      param->add_dilation(static_cast<uint32_t>(windows.dilation[i]));
                    }
                  },
                  {BroadcastTensor(ReshapeTensor(one, Dims(dims.size(), 1)), dims)});
}

OnnxBlob AveragePool(NodeImport& node, const OnnxBlob& x, const Windows& windows,
                     bool include_pad) {
  const bool dilated = !AllAre(windows.dilation, 1);
  if (!dilated && IsPlain(node, windows, x.shape) &&
      (include_pad || !UsesCeil(node) || AllAre(windows.before, 0))) {
    return Pool(node, x, PoolingParameter::AVE, windows, windows.before, UsesCeil(node), 1,
                include_pad || AllAre(windows.before, 0))[0];
  }
  const Dims counts = CountsOf(node, windows, x.shape);
  const OnnxTensor shares = WindowShares(windows, counts, x.shape, include_pad);
  const OnnxBlob padded = PadToWindows(node, x, windows, counts, 0);
  const OnnxBlob means = dilated ? DilatedMeans(node, padded, windows)
                                 : Pool(node, padded, PoolingParameter::AVE, windows,
                                        Dims(windows.axes(), 0), false, 1)[0];
  if (std::ranges::all_of(*shares.floats, [](float share) { return share == 1; })) return means;
  return BinaryBlob(node, BinaryParameter::MUL, means, node.AddConstant(shares));
}

void ConvertAveragePool(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const Windows windows = WindowsOf(node, x.shape, {});
  node.Output(0, AveragePool(node, x, windows, node.Int("count_include_pad", 0) != 0));
}

// Refuses a tensor with more places than float32 can tell apart.
void RequirePositions(const NodeImport& node, int64_t count) {
  if (count <= int64_t{1} << 24) return;
  node.Refuse(StrCat("has positions in ", count,
                     " elements; they are of float32, which holds whole ",
                     "numbers up to 2^24, and few beyond"));
}

// Turns positions in a plane of `dims` into those in the whole tensor.
OnnxBlob GlobalPositions(NodeImport& node, const OnnxBlob& positions, const Shape& x) {
  RequirePositions(node, x.count());
  if (x[0] * x[1] > kMostMadeElements) node.Refuse("has too many planes");
  std::vector<float> starts;
  for (int64_t i = 0; i < x[0] * x[1]; ++i) starts.push_back(static_cast<float>(i * x.count(2)));
  Dims dims(static_cast<size_t>(x.axes()), 1);
  dims[0] = x[0];
  dims[1] = x[1];
  return WithType(BinaryBlob(node, BinaryParameter::ADD, positions,
                             node.AddConstant(MakeFloats(dims, std::move(starts)))),
                  onnx::TensorProto::INT64);
}

// Positions that count columns first, of those that count rows first.
OnnxBlob ColumnsFirst(NodeImport& node, const OnnxBlob& positions, const Shape& x) {
  if (x.axes() != 4) node.Refuse("counts columns first without two spatial axes");
  const auto height = static_cast<float>(x[2]);
  const auto width = static_cast<float>(x[3]);
  const OnnxBlob row = BinaryBlob(node, BinaryParameter::INTEGER_DIV, positions, width);
  const OnnxBlob column = BinaryBlob(node, BinaryParameter::MOD, positions, width);
  return BinaryBlob(node, BinaryParameter::ADD,
                    BinaryBlob(node, BinaryParameter::MUL, column, height), row);
}

OnnxBlob Larger(NodeImport& node, const std::vector<OnnxBlob>& parts) {
  if (parts.size() == 1) return parts[0];
  return node.Add("Eltwise", parts, [](LayerParameter* layer) {
    layer->mutable_eltwise_param()->set_operation(EltwiseParameter::MAX);
  });
}

// The largest of 2, 4, ... elements that lie `dilation` apart, from each element on, until
// `window` of them are covered.
OnnxBlob DoubledMaximum(NodeImport& node, OnnxBlob y, int axis, int64_t window, int64_t dilation) {
  const auto with_later = [&](int64_t offset) {
    const int64_t size = y.shape[axis] - offset;
    return Larger(node, {CutBlob(node, y, axis, 0, size), CutBlob(node, y, axis, offset, size)});
  };
  int64_t covered = 1;
  for (; 2 * covered <= window; covered *= 2) y = with_later(covered * dilation);
  return covered == window ? y : with_later((window - covered) * dilation);
}

// The largest element of windows with dilations, one axis after the other: of slices of the input,
// one for each element of a window.
OnnxBlob DilatedMaximum(NodeImport& node, const OnnxBlob& x, const Windows& windows) {
  const Dims counts = CountsOf(node, windows, x.shape);
  OnnxBlob y = PadToWindows(node, x, windows, counts, -std::numeric_limits<float>::infinity());
  for (size_t i = 0; i < windows.axes(); ++i) {
    int64_t slices = windows.kernel[i];
    if (slices > kMostSlices) {
      y = DoubledMaximum(node, y, static_cast<int>(i) + 2, slices, windows.dilation[i]);
      slices = 1;
    }
    std::vector<OnnxBlob> parts;
    for (int64_t k = 0; k < slices; ++k) {
      const int64_t start = k * windows.dilation[i];
      parts.push_back(node.Add("StridedSlice", {y}, [&](LayerParameter* layer) {
        StridedSliceParameter* param = layer->mutable_strided_slice_param();
        param->add_axes(static_cast<int>(i) + 2);
        param->add_start(start);
        param->add_end(start + (counts[i] - 1) * windows.stride[i] + 1);
        param->add_step(windows.stride[i]);
      }));
    }
    y = Larger(node, parts);
  }
  return y;
}

void ConvertMaxPool(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const Windows windows = WindowsOf(node, x.shape, {});
  if (!AllAre(windows.dilation, 1)) {
    if (node.Wants(1)) node.Refuse("has dilations and positions");
    return node.Output(0, DilatedMaximum(node, x, windows));
  }
  const size_t tops = node.Wants(1) ? 2 : 1;
  std::vector<OnnxBlob> made;
  if (IsPlain(node, windows, x.shape)) {
    made = Pool(node, x, PoolingParameter::MAX, windows, windows.before, UsesCeil(node), tops);
  } else {
    if (tops == 2) node.Refuse("has positions and padding of two sizes");
    const Dims counts = CountsOf(node, windows, x.shape);
    const OnnxBlob padded =
        PadToWindows(node, x, windows, counts, -std::numeric_limits<float>::infinity());
    made = Pool(node, padded, PoolingParameter::MAX, windows, Dims(windows.axes(), 0), false, 1);
  }
  node.Output(0, made[0]);
  if (tops == 1) return;
  if (node.Int("storage_order", 0) != 0) made[1] = ColumnsFirst(node, made[1], x.shape);
  node.Output(1, GlobalPositions(node, made[1], x.shape));
}

void ConvertLpPool(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const Windows windows = WindowsOf(node, x.shape, {});
  const auto p = static_cast<float>(node.Int("p", 2));
  if (p < 1) node.Refuse("has p below 1");
  const Dims counts = CountsOf(node, windows, x.shape);
  OnnxBlob powers = p == 2 ? x : node.Add("AbsVal", {x});
  if (p != 1) powers = PowerBlob(node, powers, p, 1, 0);
  powers = PadToWindows(node, powers, windows, counts, 0);
  float size = 1;
  for (const int64_t kernel : windows.kernel) size *= static_cast<float>(kernel);
  const OnnxBlob means = DilatedMeans(node, powers, windows);
  node.Output(0, PowerBlob(node, means, 1 / p, size, 0));
}

template <PoolingParameter::PoolMethod kMethod>
void ConvertGlobalPool(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  if (x.shape.axes() < 3) node.Refuse("takes batch, channels and spatial axes");
  node.Output(0, node.Add("Pooling", {x}, [](LayerParameter* layer) {
    layer->mutable_pooling_param()->set_pool(kMethod);
    layer->mutable_pooling_param()->set_global_pooling(true);
  }));
}

void ConvertGlobalLpPool(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const auto p = static_cast<float>(node.Int("p", 2));
  if (p < 1) node.Refuse("has p below 1");
  Dims axes;
  for (int i = 2; i < x.shape.axes(); ++i) axes.push_back(i);
  OnnxBlob powers = node.Add("AbsVal", {x});
  if (p != 1) powers = PowerBlob(node, powers, p, 1, 0);
  const OnnxBlob sum = ReduceBlob(node, ReductionParameter::SUM, powers, axes);
  node.Output(0, PowerBlob(node, sum, 1 / p, 1, 0));
}

// Positions count through the whole tensor; they become those of a plane.
void ConvertMaxUnpool(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  if (x.shape.axes() != 4) node.Refuse("takes two spatial axes");
  const Windows windows = WindowsOf(node, x.shape, {});
  Dims sizes;
  for (size_t i = 0; i < 2; ++i) {
    sizes.push_back((x.shape[static_cast<int>(i) + 2] - 1) * windows.stride[i] + windows.kernel[i] -
                    windows.before[i] - windows.after[i]);
  }
  if (sizes[0] < 1 || sizes[1] < 1) node.Refuse("has pads that leave nothing of its output");
  const Dims inferred = sizes;
  Dims wanted = sizes;
  if (node.Has(2)) {
    const Dims shape = node.Ints(2, "output_shape");
    if (shape.size() != 4) node.Refuse("has an output_shape of another number of axes");
    wanted = {shape[2], shape[3]};
  }
  // Positions count in a tensor of the inferred size.
  RequirePositions(node, x.shape[0] * x.shape[1] * inferred[0] * inferred[1]);
  const auto plane = static_cast<float>(inferred[0] * inferred[1]);
  OnnxBlob mask = BinaryBlob(node, BinaryParameter::MOD, node.In(1), plane);
  OnnxBlob y = node.Add("Upsample", {x, mask}, [&](LayerParameter* layer) {
    layer->mutable_upsample_param()->set_upsample_h(static_cast<uint32_t>(inferred[0]));
    layer->mutable_upsample_param()->set_upsample_w(static_cast<uint32_t>(inferred[1]));
  });
  node.Output(
      0, PadBlob(node, y, {0, 0, 0, 0}, {0, 0, wanted[0] - inferred[0], wanted[1] - inferred[1]}));
}

}  // namespace

void AddPoolingConverters(ConverterTable* table) {
  (*table)["AveragePool"] = ConvertAveragePool;
  (*table)["MaxPool"] = ConvertMaxPool;
  (*table)["LpPool"] = ConvertLpPool;
  (*table)["GlobalAveragePool"] = ConvertGlobalPool<PoolingParameter::AVE>;
  (*table)["GlobalMaxPool"] = ConvertGlobalPool<PoolingParameter::MAX>;
  (*table)["GlobalLpPool"] = ConvertGlobalLpPool;
  (*table)["MaxUnpool"] = ConvertMaxUnpool;
}

}  // namespace crema
