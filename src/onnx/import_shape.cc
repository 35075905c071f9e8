// Operators that move values.
#include <algorithm>
#include <numeric>

#include "core/strings.h"
#include "onnx/import_blocks.h"
#include "onnx/import_convert.h"
#include "onnx/import_fold.h"

namespace crema {
namespace {

void ConvertReshape(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  node.Output(0, ReshapeBlob(node, x,
                             ReshapedDims(node, DimsOf(x), node.IntsOf("shape", 1),
                                          node.Int("allowzero", 0) != 0)));
}

void ConvertFlatten(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  int64_t axis = node.Int("axis", 1);
  if (axis < 0) axis += x.shape.axes();
  if (axis < 0 || axis > x.shape.axes()) node.Refuse(StrCat("has axis ", axis));
  const auto split = static_cast<int>(axis);
  if (split == 1 && x.shape.axes() > 2) return node.Output(0, node.Add("Flatten", {x}));
  node.Output(0, ReshapeBlob(node, x, {x.shape.count(0, split), x.shape.count(split)}));
}

void ConvertUnsqueeze(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  node.Output(0, ReshapeBlob(node, x, UnsqueezedDims(node)));
}

void ConvertSqueeze(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  node.Output(0, ReshapeBlob(node, x, SqueezedDims(node)));
}

void ConvertTranspose(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  Dims order = node.IntList("perm");
  if (order.empty()) {
    order.resize(static_cast<size_t>(x.shape.axes()));
    std::iota(order.rbegin(), order.rend(), 0);
  }
  if (order.size() != static_cast<size_t>(x.shape.axes())) node.Refuse("perm does not fit");
  order = CanonicalAxes(node, order, order.size());
  node.Output(0, PermuteBlob(node, x, order));
}

void ConvertConcat(NodeImport& node) {
  std::vector<OnnxBlob> parts;
  if (node.inputs() == 0) node.Refuse("has no inputs");
  for (size_t i = 0; i < node.inputs(); ++i) {
    // Empty parts, as exporters make them, add nothing.
    if (node.ShapeOf(i).count() > 0 || i + 1 == node.inputs()) parts.push_back(node.In(i));
  }
  if (parts.size() > 1 && parts.back().shape.count() == 0) parts.pop_back();
  if (node.opset() >= 4) node.RequiredInt("axis");
  const int axis = AxisOf(node, parts[0].shape, 1);
  node.Output(0, parts.size() == 1 ? parts[0] : ConcatBlob(node, parts, axis));
}

void ConvertSplit(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const int axis = AxisOf(node, x.shape, 0);
  const Dims sizes = SplitSizes(node, x.shape[axis]);
  if (sizes.size() == 1) return node.Output(0, x);
  const bool empty = std::ranges::find(sizes, 0) != sizes.end();
  if (empty && sizes.size() > 1024) node.Refuse("has more than 1024 parts, and empty ones");
  // Parts of the last axis may be those of one product.
  if (empty || node.Moved(x) != nullptr || (axis == x.shape.axes() - 1 && sizes.size() == 3)) {
    int64_t start = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      node.Output(i, CutBlob(node, x, axis, start, sizes[i]));
      start += sizes[i];
    }
    return;
  }
  const auto parts = node.AddAll("Slice", {x}, sizes.size(), [&](LayerParameter* layer) {
    SliceParameter* param = layer->mutable_slice_param();
    if (axis != 1) param->set_axis(axis);
    int64_t point = 0;
    for (size_t i = 0; i + 1 < sizes.size(); ++i) {
      point += sizes[i];
      param->add_slice_point(static_cast<uint32_t>(point));
    }
  });
  for (size_t i = 0; i < parts.size(); ++i) node.Output(i, parts[i]);
}

void ConvertSlice(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const SliceBounds bounds = SliceBoundsOf(node);
  if (bounds.size == DimsOf(x) && std::ranges::all_of(bounds.step, [](auto s) { return s == 1; })) {
    return node.Output(0, x);
  }
  int cut = -1;  // the only axis that is cut
  int changed = 0;
  for (size_t i = 0; i < bounds.size.size(); ++i) {
    const bool same = bounds.size[i] == x.shape[static_cast<int>(i)] && bounds.step[i] == 1;
    changed += same ? 0 : 1;
    if (!same && bounds.step[i] == 1) cut = static_cast<int>(i);
  }
  if (changed == 1 && cut >= 0) {
    const auto i = static_cast<size_t>(cut);
    return node.Output(0, CutBlob(node, x, cut, bounds.start[i], bounds.size[i]));
  }
  node.Output(0, node.Add("StridedSlice", {x}, [&](LayerParameter* layer) {
    StridedSliceParameter* param = layer->mutable_strided_slice_param();
    for (size_t i = 0; i < bounds.size.size(); ++i) {
      if (bounds.size[i] == x.shape[static_cast<int>(i)] && bounds.step[i] == 1) continue;
      const int64_t end = bounds.start[i] + bounds.size[i] * bounds.step[i];
      param->add_axes(static_cast<int>(i));
      param->add_start(bounds.start[i]);
      // Before the first element: negative numbers below -size stand for it.
      param->add_end(end < 0 ? -x.shape[static_cast<int>(i)] - 1 : end);
      param->add_step(bounds.step[i]);
    }
  }));
}

void ConvertPad(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const auto count = static_cast<size_t>(x.shape.axes());
  const Dims pads = node.IntsOf("pads", 1);
  Dims axes(count);
  std::iota(axes.begin(), axes.end(), 0);
  if (node.Has(3)) axes = CanonicalAxes(node, node.Ints(3, "axes"), count);
  if (pads.size() != 2 * axes.size()) node.Refuse("has pads that do not fit its axes");
  Dims before(count, 0);
  Dims after(count, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    before[static_cast<size_t>(axes[i])] = pads[i];
    after[static_cast<size_t>(axes[i])] = pads[axes.size() + i];
  }
  for (const Dims& list : {before, after}) {
    for (const int64_t pad : list) {
      if (pad < -(1 << 30) || pad > (1 << 30)) node.Refuse(StrCat("has a pad of ", pad));
    }
  }
  float value = node.Float("value", 0);
  if (node.Has(2)) {
    const std::vector<float> values = node.Floats(2, "value");
    if (values.size() != 1) node.Refuse("has not one value");
    value = values[0];
  }
  static const std::map<std::string, PadParameter::PadMode> kModes = {
      {"constant", PadParameter::CONSTANT},
      {"reflect", PadParameter::REFLECT},
      {"edge", PadParameter::REPLICATE},
      {"wrap", PadParameter::WRAP}};
  const auto mode = kModes.find(node.String("mode", "constant"));
  if (mode == kModes.end()) node.Refuse("has an unknown mode");
  node.Output(0, PadBlob(node, x, before, after, value, mode->second));
}

void ConvertExpand(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const auto dims = BroadcastDims(DimsOf(x), node.Ints(1, "shape"));
  if (!dims) node.Refuse("has a shape that its input does not broadcast to");
  node.Output(0, ExpandBlob(node, x, *dims));
}

void ConvertTile(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const Dims repeats = node.Ints(1, "repeats");
  if (repeats.size() != static_cast<size_t>(x.shape.axes())) node.Refuse("has other repeats");
  for (const int64_t repeat : repeats) {
    if (repeat < 1 || repeat > (1 << 30)) node.Refuse(StrCat("repeats ", repeat, " times"));
  }
  if (std::ranges::all_of(repeats, [](int64_t r) { return r == 1; })) return node.Output(0, x);
  node.Output(0, node.Add("Tile", {x}, [&](LayerParameter* layer) {
    for (const int64_t repeat : repeats) {
      layer->mutable_tile_param()->add_repeats(static_cast<uint32_t>(repeat));
    }
  }));
}

int64_t BlockOf(const NodeImport& node, const Shape& x) {
  const int64_t block = node.Int("blocksize", 0);
  if (x.axes() != 4 || block < 1 || block > 1 << 15) node.Refuse(StrCat("has blocks of ", block));
  return block;
}

void ConvertDepthToSpace(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const int64_t b = BlockOf(node, x.shape);
  const int64_t n = x.shape[0];
  const int64_t c = x.shape[1] / (b * b);
  const int64_t h = x.shape[2];
  const int64_t w = x.shape[3];
  if (c * b * b != x.shape[1]) node.Refuse("has channels that its blocks do not divide");
  const bool depth_first = node.Choice("mode", {"DCR", "CRD"}) == "DCR";
  OnnxBlob y = ReshapeBlob(node, x, depth_first ? Dims{n, b, b, c, h, w} : Dims{n, c, b, b, h, w});
  y = PermuteBlob(node, y, depth_first ? Dims{0, 3, 4, 1, 5, 2} : Dims{0, 1, 4, 2, 5, 3});
  node.Output(0, ReshapeBlob(node, y, {n, c, h * b, w * b}));
}

void ConvertSpaceToDepth(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const int64_t b = BlockOf(node, x.shape);
  const int64_t h = x.shape[2] / b;
  const int64_t w = x.shape[3] / b;
  if (h * b != x.shape[2] || w * b != x.shape[3])
    node.Refuse("has sizes that its blocks do not divide");
  OnnxBlob y = ReshapeBlob(node, x, {x.shape[0], x.shape[1], h, b, w, b});
  const bool depth_first = node.Choice("mode", {"DCR", "CRD"}) == "DCR";
  y = PermuteBlob(node, y, depth_first ? Dims{0, 3, 5, 1, 2, 4} : Dims{0, 1, 3, 5, 2, 4});
  node.Output(0, ReshapeBlob(node, y, {x.shape[0], x.shape[1] * b * b, h, w}));
}

// Cuts or pads around the centre.
void ConvertCenterCropPad(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const auto count = static_cast<size_t>(x.shape.axes());
  const Dims sizes = node.Ints(1, "shape");
  Dims axes = node.IntList("axes");
  if (axes.empty()) {
    axes.resize(count);
    std::iota(axes.begin(), axes.end(), 0);
  }
  axes = CanonicalAxes(node, axes, count);
  if (axes.size() != sizes.size()) node.Refuse("has a shape that does not fit its axes");
  Dims before(count, 0);
  Dims after(count, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    const int64_t size = x.shape[static_cast<int>(axis)];
    if (sizes[i] < 1 || sizes[i] > (1 << 30)) node.Refuse(StrCat("has a size of ", sizes[i]));
    const int64_t more = sizes[i] - size;
    before[axis] = more < 0 ? -(-more / 2) : more / 2;
    after[axis] = more - before[axis];
  }
  node.Output(0, PadBlob(node, x, before, after));
}

}  // namespace

void AddShapeConverters(ConverterTable* table) {
  (*table)["Reshape"] = ConvertReshape;
  (*table)["Flatten"] = ConvertFlatten;
  (*table)["Unsqueeze"] = ConvertUnsqueeze;
  (*table)["Squeeze"] = ConvertSqueeze;
  (*table)["Transpose"] = ConvertTranspose;
  (*table)["Concat"] = ConvertConcat;
  (*table)["Split"] = ConvertSplit;
  (*table)["Slice"] = ConvertSlice;
  (*table)["Pad"] = ConvertPad;
  (*table)["Expand"] = ConvertExpand;
  (*table)["Tile"] = ConvertTile;
  (*table)["CenterCropPad"] = ConvertCenterCropPad;
  (*table)["DepthToSpace"] = ConvertDepthToSpace;
  (*table)["SpaceToDepth"] = ConvertSpaceToDepth;
}

}  // namespace crema
