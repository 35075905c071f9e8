// Operators that choose values by indices, and those that make values of shapes.
#include <algorithm>
#include <limits>
#include <optional>

#include "core/strings.h"
#include "onnx/import_blocks.h"
#include "onnx/import_convert.h"
#include "onnx/import_fold.h"

namespace crema {
namespace {

using onnx::TensorProto;

// Refuses an axis with more places than a blob of indices can tell apart.
void RequireIndices(const NodeImport& node, int64_t size) {
  constexpr int64_t kMost = (int64_t{1} << 24) + 1;
  if (size <= kMost) return;
  node.Refuse(StrCat("has an axis of ", size, " elements, and its indices are of float32, which ",
                     "holds whole numbers up to 2^24, and few beyond"));
}

// Does so for the axes that a computed input 1 gives places in: [begin, end).
void RequireIndices(const NodeImport& node, const Shape& shape, int64_t begin, int64_t end) {
  if (node.Constant(1) != nullptr) return;
  for (int64_t axis = begin; axis < std::min<int64_t>(end, shape.axes()); ++axis) {
    RequireIndices(node, shape[static_cast<int>(axis)]);
  }
}

// One element of an axis, at a constant place.
OnnxBlob TakeOne(NodeImport& node, const OnnxBlob& x, int axis, int64_t index) {
  const int64_t size = x.shape[axis];
  if (index < -size || index >= size) node.Refuse(StrCat("index ", index, " is outside of ", size));
  const OnnxBlob cut = CutBlob(node, x, axis, index < 0 ? index + size : index, 1);
  Dims dims = DimsOf(cut);
  dims.erase(dims.begin() + axis);
  return ReshapeBlob(node, cut, dims);
}

OnnxBlob Gather(NodeImport& node, const OnnxBlob& x, const OnnxBlob& index, int axis,
                GatherParameter::Mode mode, int64_t batch_dims = 0) {
  return WithType(node.Add("Gather", {x, index},
                           [&](LayerParameter* layer) {
                             GatherParameter* param = layer->mutable_gather_param();
                             if (axis != 0) param->set_axis(axis);
                             if (mode != GatherParameter::AXIS) param->set_mode(mode);
                             if (batch_dims != 0) {
                               param->set_batch_dims(static_cast<int>(batch_dims));
                             }
                           }),
                  x.type);
}

void ConvertGather(NodeImport& node) {
  const int axis = AxisOf(node, node.ShapeOf(0), 0);
  const OnnxTensor* index = node.Constant(1);
  if (index != nullptr && index->dims.empty() && !index->IsFloat()) {
    const OnnxBlob x = node.In(0);
    return node.Output(0, TakeOne(node, x, axis, (*index->ints)[0]));
  }
  const OnnxBlob x = node.In(0);
  if (index == nullptr) RequireIndices(node, x.shape[axis]);
  node.Output(0, Gather(node, x, node.In(1), axis, GatherParameter::AXIS));
}

void ConvertGatherElements(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const int axis = AxisOf(node, x.shape, 0);
  RequireIndices(node, x.shape, axis, axis + 1);
  node.Output(0, Gather(node, x, node.In(1), axis, GatherParameter::ELEMENTS));
}

void ConvertGatherND(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const int64_t batch = node.Int("batch_dims", 0);
  RequireIndices(node, x.shape, std::max<int64_t>(0, batch), x.shape.axes());
  node.Output(0, Gather(node, x, node.In(1), 0, GatherParameter::ND, batch));
}

void Scatter(NodeImport& node, ScatterParameter::Mode mode) {
  static const std::map<std::string, ScatterParameter::Reduction> kReductions = {
      {"none", ScatterParameter::NONE},
      {"add", ScatterParameter::ADD},
      {"mul", ScatterParameter::MUL},
      {"max", ScatterParameter::MAX},
      {"min", ScatterParameter::MIN}};
  const auto reduction = kReductions.find(node.String("reduction", "none"));
  if (reduction == kReductions.end()) node.Refuse("has an unknown reduction");
  const OnnxBlob x = node.In(0);
  const int indexed = mode == ScatterParameter::ELEMENTS ? AxisOf(node, x.shape, 0) : 0;
  RequireIndices(node, x.shape, indexed,
                 mode == ScatterParameter::ELEMENTS ? indexed + 1 : x.shape.axes());
  const OnnxBlob index = node.In(1);
  const OnnxBlob updates = node.In(2);
  node.Output(0, node.Add("Scatter", {x, index, updates}, [&](LayerParameter* layer) {
    ScatterParameter* param = layer->mutable_scatter_param();
    if (mode != ScatterParameter::ELEMENTS) {
      param->set_mode(mode);
    } else if (indexed != 0) {
      param->set_axis(indexed);
    }
    if (reduction->second != ScatterParameter::NONE) param->set_reduction(reduction->second);
  }));
}

void ConvertScatterElements(NodeImport& node) { Scatter(node, ScatterParameter::ELEMENTS); }
void ConvertScatterND(NodeImport& node) { Scatter(node, ScatterParameter::ND); }

std::vector<OnnxBlob> TopK(NodeImport& node, const OnnxBlob& x, int axis, int64_t k, bool largest,
                           bool sorted) {
  RequireIndices(node, x.shape[axis]);
  return node.AddAll("TopK", {x}, 2, [&](LayerParameter* layer) {
    TopKParameter* param = layer->mutable_top_k_param();
    param->set_k(k);
    param->set_axis(axis);
    if (!largest) param->set_largest(false);
    if (!sorted) param->set_sorted(false);
  });
}

void ConvertTopK(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const Dims k = node.HasAttribute("k") ? Dims{node.Int("k", 0)} : node.Ints(1, "k");
  if (k.size() != 1) node.Refuse("has not one k");
  const auto tops = TopK(node, x, AxisOf(node, x.shape, -1), k[0], node.Int("largest", 1) != 0,
                         node.Int("sorted", 1) != 0);
  node.Output(0, tops[0]);
  node.Output(1, WithType(tops[1], TensorProto::INT64));
}

// The first of equal values counts, unless select_last_index is set.
void ArgExtreme(NodeImport& node, bool largest) {
  OnnxBlob x = node.In(0);
  const int axis = AxisOf(node, x.shape, 0);
  OnnxBlob index;
  RequireIndices(node, x.shape[axis]);
  if (node.Int("select_last_index", 0) != 0) {
    if (!largest) x = PowerBlob(node, x, 1, -1, 0);
    index = node.Add("ArgMax", {x},
                     [&](LayerParameter* layer) { layer->mutable_argmax_param()->set_axis(axis); });
  } else {
    index = TopK(node, x, axis, 1, largest, true)[1];
  }
  if (node.Int("keepdims", 1) == 0) {
    Dims dims = DimsOf(index);
    dims.erase(dims.begin() + axis);
    index = ReshapeBlob(node, index, dims);
  }
  node.Output(0, WithType(index, TensorProto::INT64));
}

void ConvertArgMax(NodeImport& node) { ArgExtreme(node, true); }
void ConvertArgMin(NodeImport& node) { ArgExtreme(node, false); }

OnnxBlob OneHot(NodeImport& node, const OnnxBlob& index, int64_t depth, int64_t axis, float on,
                float off) {
  return node.Add("OneHot", {index}, [&](LayerParameter* layer) {
    OneHotParameter* param = layer->mutable_one_hot_param();
    param->set_depth(depth);
    param->set_axis(static_cast<int>(axis));
    if (on != 1) param->set_on_value(on);
    if (off != 0) param->set_off_value(off);
  });
}

void ConvertOneHot(NodeImport& node) {
  const std::vector<float> depth = node.Floats(1, "depth");
  const std::vector<float> values = node.Floats(2, "values");
  if (depth.size() != 1 || values.size() != 2) node.Refuse("has not one depth and two values");
  if (!(depth[0] >= 1 && depth[0] < 0x1p31F)) node.Refuse("has a depth below 1");
  RequireIndices(node, static_cast<int64_t>(depth[0]));
  const OnnxBlob index = node.In(0);
  node.Output(0, WithType(OneHot(node, index, static_cast<int64_t>(depth[0]), node.Int("axis", -1),
                                 values[1], values[0]),
                          node.TypeOf(2)));
}

void ConvertHardmax(NodeImport& node) {
  OnnxBlob x = node.In(0);
  const Dims dims = DimsOf(x);
  int axis = AxisOf(node, x.shape, node.opset() < 13 ? 1 : -1);
  if (node.opset() < 13) {  // all axes from it on count together
    Dims flat(dims.begin(), dims.begin() + axis);
    flat.push_back(x.shape.count(axis));
    x = ReshapeBlob(node, x, flat);
  }
  OnnxBlob index = TopK(node, x, axis, 1, true, true)[1];
  Dims without = DimsOf(index);
  without.erase(without.begin() + axis);
  index = ReshapeBlob(node, index, without);
  const OnnxBlob hot = OneHot(node, index, x.shape[axis], axis, 1, 0);
  node.Output(0, WithType(ReshapeBlob(node, hot, dims), node.TypeOf(0)));
}

void ConvertCumSum(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const Dims axis = node.Ints(1, "axis");
  if (axis.size() != 1) node.Refuse("has not one axis");
  CanonicalAxes(node, axis, static_cast<size_t>(x.shape.axes()));
  node.Output(0, node.Add("CumSum", {x}, [&](LayerParameter* layer) {
    CumSumParameter* param = layer->mutable_cum_sum_param();
    param->set_axis(static_cast<int>(axis[0]));
    if (node.Int("exclusive", 0) != 0) param->set_exclusive(true);
    if (node.Int("reverse", 0) != 0) param->set_reverse(true);
  }));
}

// Products from the start on, by doubling: element i times element i - 1, then i - 2, i - 4, ...
void ConvertCumProd(NodeImport& node) {
  OnnxBlob x = node.In(0);
  const Dims given = node.Ints(1, "axis");
  if (given.size() != 1) node.Refuse("has not one axis");
  const auto count = static_cast<size_t>(x.shape.axes());
  const auto axis = static_cast<size_t>(CanonicalAxes(node, given, count)[0]);
  const bool reverse = node.Int("reverse", 0) != 0;
  const auto shifted = [&](const OnnxBlob& from, int64_t by) {
    Dims before(count, 0);
    Dims after(count, 0);
    before[axis] = reverse ? -by : by;
    after[axis] = -before[axis];
    return PadBlob(node, from, before, after, 1);
  };
  if (node.Int("exclusive", 0) != 0) x = shifted(x, 1);
  const int64_t size = x.shape[static_cast<int>(axis)];
  for (int64_t by = 1; by < size; by *= 2) {
    x = BinaryBlob(node, BinaryParameter::MUL, x, shifted(x, by));
  }
  node.Output(0, x);
}

void ConvertTrilu(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const Dims k = node.Has(1) ? node.Ints(1, "k") : Dims{0};
  if (k.size() != 1) node.Refuse("has not one k");
  node.Output(0, node.Add("Trilu", {x}, [&](LayerParameter* layer) {
    if (node.Int("upper", 1) == 0) layer->mutable_trilu_param()->set_upper(false);
    if (k[0] != 0) layer->mutable_trilu_param()->set_k(k[0]);
  }));
}

// Entries of an axis, or of all values, where the condition is true. One that is
// computed selects items.
void ConvertCompress(NodeImport& node) {
  OnnxBlob x = node.In(0);
  if (node.Constant(1) == nullptr) {
    const OnnxBlob condition = node.In(1);
    const bool items =
        node.HasAttribute("axis") ? AxisOf(node, x.shape, 0) == 0 : x.shape.axes() == 1;
    if (!items || condition.shape.axes() != 1 || condition.shape[0] != x.shape[0]) {
      node.Refuse("has a computed condition, for other than all entries of axis 0");
    }
    return node.Output(0, WithType(node.Add("Filter", {x, condition}), x.type));
  }
  const Dims condition = node.Ints(1, "condition");
  int axis = 0;
  if (node.HasAttribute("axis")) {
    axis = AxisOf(node, x.shape, 0);
  } else {
    x = ReshapeBlob(node, x, {x.shape.count()});
  }
  std::vector<int64_t> chosen;
  for (size_t i = 0; i < condition.size(); ++i) {
    if (condition[i] != 0) chosen.push_back(static_cast<int64_t>(i));
  }
  const OnnxTensor index = MakeInts({static_cast<int64_t>(chosen.size())}, chosen);
  node.Output(0, Gather(node, x, node.AddConstant(index), axis, GatherParameter::AXIS));
}

void ConvertEyeLike(NodeImport& node) {
  const Shape& shape = node.ShapeOf(0);
  if (shape.axes() != 2 || shape.count() > kMostFoldedElements) node.Refuse("takes small matrices");
  const auto type = static_cast<int>(node.Int("dtype", node.TypeOf(0)));
  const int64_t k = node.Int("k", 0);
  std::vector<float> values(static_cast<size_t>(shape.count()), 0);
  for (int64_t i = 0; i < shape[0]; ++i) {
    if (k > shape[1] || k < -shape[0]) break;
    if (i + k >= 0 && i + k < shape[1]) values[static_cast<size_t>(i * shape[1] + i + k)] = 1;
  }
  node.Output(0, CastTensor(MakeFloats({shape[0], shape[1]}, std::move(values)), type));
}

void ConvertNonMaxSuppression(NodeImport& node) {
  const auto number = [&](size_t input, const char* what) -> std::optional<float> {
    if (!node.Has(input)) return std::nullopt;
    const std::vector<float> values = node.Floats(input, what);
    if (values.size() != 1) node.Refuse(StrCat("has not one ", what));
    return values[0];
  };
  const auto most =
      node.Has(2) ? std::optional(node.Ints(2, "max_output_boxes_per_class")) : std::nullopt;
  const auto iou = number(3, "iou_threshold");
  const auto score = number(4, "score_threshold");
  const OnnxBlob boxes = node.In(0);
  const OnnxBlob scores = node.In(1);
  const OnnxBlob chosen =
      node.Add("NonMaxSuppression", {boxes, scores}, [&](LayerParameter* layer) {
        auto* param = layer->mutable_non_max_suppression_param();
        if (node.Int("center_point_box", 0) != 0) param->set_center_point_box(true);
        param->set_max_output_boxes_per_class(most && most->size() == 1 ? (*most)[0] : 0);
        if (iou) param->set_iou_threshold(*iou);
        if (score && *score > std::numeric_limits<float>::lowest()) {
          param->set_score_threshold(*score);
        }
      });
  node.Output(0, WithType(chosen, TensorProto::INT64));
}

// Reverses the first elements of sequences whose lengths are constant.
void ConvertReverseSequence(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const Dims lengths = node.Ints(1, "sequence_lens");
  const int64_t batch_axis = node.Int("batch_axis", 1);
  const int64_t time_axis = node.Int("time_axis", 0);
  if (x.shape.axes() < 2 || batch_axis + time_axis != 1 || batch_axis < 0 || time_axis < 0) {
    node.Refuse("takes time and batch as the first two axes");
  }
  const int64_t steps = x.shape[static_cast<int>(time_axis)];
  const int64_t batch = x.shape[static_cast<int>(batch_axis)];
  if (static_cast<int64_t>(lengths.size()) != batch) node.Refuse("has other sequence_lens");
  if (steps * batch > kMostMadeElements) node.Refuse("is too large");
  std::vector<int64_t> places;
  for (int64_t i = 0; i < x.shape[0]; ++i) {
    for (int64_t j = 0; j < x.shape[1]; ++j) {
      const int64_t n = batch_axis == 0 ? i : j;
      const int64_t t = batch_axis == 0 ? j : i;
      const int64_t length = std::clamp<int64_t>(lengths[static_cast<size_t>(n)], 0, steps);
      const int64_t from = t < length ? length - 1 - t : t;
      places.push_back(batch_axis == 0 ? n * steps + from : from * batch + n);
    }
  }
  Dims dims = DimsOf(x);
  Dims flat(dims.begin() + 1, dims.end());
  flat[0] = x.shape[0] * x.shape[1];
  const OnnxBlob rows = ReshapeBlob(node, x, flat);
  const OnnxTensor index = MakeInts({flat[0]}, std::move(places));
  const OnnxBlob moved = Gather(node, rows, node.AddConstant(index), 0, GatherParameter::AXIS);
  node.Output(0, ReshapeBlob(node, moved, dims));
}

}  // namespace

void AddIndexConverters(ConverterTable* table) {
  (*table)["Gather"] = ConvertGather;
  (*table)["GatherElements"] = ConvertGatherElements;
  (*table)["GatherND"] = ConvertGatherND;
  (*table)["Scatter"] = ConvertScatterElements;
  (*table)["ScatterElements"] = ConvertScatterElements;
  (*table)["ScatterND"] = ConvertScatterND;
  (*table)["TopK"] = ConvertTopK;
  (*table)["ArgMax"] = ConvertArgMax;
  (*table)["ArgMin"] = ConvertArgMin;
  (*table)["OneHot"] = ConvertOneHot;
  (*table)["Hardmax"] = ConvertHardmax;
  (*table)["CumSum"] = ConvertCumSum;
  (*table)["CumProd"] = ConvertCumProd;
  (*table)["Trilu"] = ConvertTrilu;
  (*table)["Compress"] = ConvertCompress;
  (*table)["EyeLike"] = ConvertEyeLike;
  (*table)["NonMaxSuppression"] = ConvertNonMaxSuppression;
  (*table)["ReverseSequence"] = ConvertReverseSequence;
}

}  // namespace crema
