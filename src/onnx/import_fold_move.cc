// Folds nodes that move values without changing them.
#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "core/strings.h"
#include "onnx/import_fold.h"

namespace crema {
namespace {

using onnx::TensorProto;

int64_t CountOf(const Dims& dims, size_t begin, size_t end) {
  int64_t count = 1;
  for (size_t i = begin; i < end; ++i) count *= dims[i];
  return count;
}
int64_t CountOf(const Dims& dims) { return CountOf(dims, 0, dims.size()); }

// Returns the values of `from` that `fill` picks: fill(source, result).
template <typename Fill>
OnnxTensor Refill(const OnnxTensor& from, Dims dims, const Fill& fill) {
  const auto count = static_cast<size_t>(CountOf(dims));
  if (from.IsFloat()) {
    std::vector<float> values(count);
    fill(*from.floats, values);
    return MakeFloats(std::move(dims), std::move(values), from.type);
  }
  std::vector<int64_t> values(count);
  fill(*from.ints, values);
  return MakeInts(std::move(dims), std::move(values), from.type);
}

std::vector<OnnxTensor> FoldGather(const NodeImport& node) {
  const OnnxTensor& x = node.Weights(0, "input");
  const OnnxTensor& index = node.Weights(1, "input");
  if (x.dims.empty() || index.IsFloat()) return {};
  const auto axis =
      static_cast<size_t>(CanonicalAxes(node, {node.Int("axis", 0)}, x.dims.size())[0]);
  const int64_t size = x.dims[axis];
  for (const int64_t i : *index.ints) {
    if (i < -size || i >= size) node.Refuse(StrCat("index ", i, " is outside of ", size));
  }
  Dims dims(x.dims.begin(), x.dims.begin() + static_cast<std::ptrdiff_t>(axis));
  dims.insert(dims.end(), index.dims.begin(), index.dims.end());
  dims.insert(dims.end(), x.dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.dims.end());
  if (BoundedCount(dims) > std::max(kMostFoldedElements, x.count())) return {};
  const int64_t outer = BoundedCount(dims) == 0 ? 0 : CountOf(x.dims, 0, axis);
  return {Refill(x, dims, [&](const auto& source, auto& values) {
    const int64_t inner = CountOf(x.dims, axis + 1, x.dims.size());
    size_t next = 0;
    for (int64_t o = 0; o < outer; ++o) {
      for (const int64_t i : *index.ints) {
        const int64_t place = (o * size + (i < 0 ? i + size : i)) * inner;
        for (int64_t k = 0; k < inner; ++k) values[next++] = source[static_cast<size_t>(place + k)];
      }
    }
  })};
}

std::vector<OnnxTensor> FoldConcat(const NodeImport& node) {
  const OnnxTensor& first = node.Weights(0, "input");
  const auto axis =
      static_cast<size_t>(CanonicalAxes(node, {node.Int("axis", 0)}, first.dims.size())[0]);
  Dims dims = first.dims;
  dims[axis] = 0;
  for (size_t i = 0; i < node.inputs(); ++i) {
    const OnnxTensor& part = node.Weights(i, "input");
    if (part.IsFloat() != first.IsFloat() || part.dims.size() != dims.size()) return {};
    dims[axis] += part.dims[axis];
    Dims same = part.dims;
    same[axis] = first.dims[axis];
    if (same != first.dims) return {};
  }
  const int64_t outer = BoundedCount(dims) == 0 ? 0 : CountOf(dims, 0, axis);
  const auto fill = [&](auto& values, auto values_of) {
    size_t next = 0;
    for (int64_t o = 0; o < outer; ++o) {
      for (size_t i = 0; i < node.inputs(); ++i) {
        const auto& part = values_of(node.Weights(i, "input"));
        const auto length =
            static_cast<size_t>(CountOf(node.Weights(i, "input").dims, axis, dims.size()));
        for (size_t k = 0; k < length; ++k) {
          values[next++] = part[static_cast<size_t>(o) * length + k];
        }
      }
    }
  };
  const auto count = static_cast<size_t>(CountOf(dims));
  if (first.IsFloat()) {
    std::vector<float> values(count);
    fill(
        values, [](const OnnxTensor& t) -> const auto& { return *t.floats; });
    return {MakeFloats(dims, std::move(values), first.type)};
  }
  std::vector<int64_t> values(count);
  fill(
      values, [](const OnnxTensor& t) -> const auto& { return *t.ints; });
  return {MakeInts(dims, std::move(values), first.type)};
}

OnnxTensor Slice(const OnnxTensor& x, const SliceBounds& bounds) {
  Dims strides = StridesOf(x.dims);
  int64_t offset = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    offset += bounds.start[i] * strides[i];
    strides[i] *= bounds.step[i];
  }
  return StridedCopy(x, bounds.size, offset, strides);
}

std::vector<OnnxTensor> FoldSplit(const NodeImport& node) {
  const OnnxTensor& x = node.Weights(0, "input");
  const auto axis =
      static_cast<size_t>(CanonicalAxes(node, {node.Int("axis", 0)}, x.dims.size())[0]);
  std::vector<OnnxTensor> parts;
  SliceBounds bounds{Dims(x.dims.size(), 0), Dims(x.dims.size(), 1), x.dims};
  for (const int64_t size : SplitSizes(node, x.dims[axis])) {
    bounds.size[axis] = size;
    parts.push_back(Slice(x, bounds));
    bounds.start[axis] += size;
  }
  return parts;
}

std::vector<OnnxTensor> FoldTranspose(const NodeImport& node) {
  const OnnxTensor& x = node.Weights(0, "input");
  Dims order = node.IntList("perm");
  if (order.empty()) {
    order.resize(x.dims.size());
    std::iota(order.rbegin(), order.rend(), 0);
  }
  if (order.size() != x.dims.size()) node.Refuse("perm does not fit the axes");
  order = CanonicalAxes(node, std::move(order), x.dims.size());
  return {TransposeTensor(x, order)};
}

std::vector<OnnxTensor> FoldExpand(const NodeImport& node) {
  const OnnxTensor& x = node.Weights(0, "input");
  const auto dims = BroadcastDims(x.dims, node.Ints(1, "shape"));
  if (!dims || BoundedCount(*dims) > std::max(kMostFoldedElements, x.count())) return {};
  return {BroadcastTensor(x, *dims)};
}

std::vector<OnnxTensor> FoldTile(const NodeImport& node) {
  const OnnxTensor& x = node.Weights(0, "input");
  const Dims repeats = node.Ints(1, "repeats");
  if (repeats.size() != x.dims.size()) return {};
  const Dims own = StridesOf(x.dims);
  Dims dims;
  Dims apart;
  Dims strides;
  for (size_t i = 0; i < repeats.size(); ++i) {
    if (repeats[i] < 0) return {};
    dims.push_back(x.dims[i] * std::min(repeats[i], int64_t{1} << 21));
    apart.insert(apart.end(), {repeats[i], x.dims[i]});
    strides.insert(strides.end(), {0, own[i]});
  }
  if (BoundedCount(apart) > std::max(kMostFoldedElements, x.count())) return {};
  return {ReshapeTensor(StridedCopy(x, apart, 0, strides), dims)};
}

std::vector<OnnxTensor> FoldConstantOfShape(const NodeImport& node) {
  const Dims dims = node.Ints(0, "shape");
  if (dims.size() > static_cast<size_t>(kMostOnnxAxes)) node.Refuse("gives too many axes");
  for (const int64_t dim : dims) {
    if (dim < 0) node.Refuse(StrCat("gives a dimension of ", dim));
  }
  if (BoundedCount(dims) > kMostFoldedElements) return {};
  OnnxTensor value = MakeFloats({1}, {0});
  if (const auto* attribute = FindAttribute(node.node(), "value")) {
    value = ReadOnnxTensor(attribute->t(), "");
    if (value.count() != 1) node.Refuse("its value has not one element");
    value.dims = {1};
  }
  return {StridedCopy(value, dims, 0, Dims(dims.size(), 0))};
}

std::vector<OnnxTensor> FoldNonZero(const NodeImport& node) {
  const OnnxTensor& x = node.Weights(0, "input");
  if (x.count() > kMostFoldedElements) return {};
  const Dims strides = StridesOf(x.dims);
  std::vector<int64_t> places;
  for (size_t i = 0; i < static_cast<size_t>(x.count()); ++i) {
    const bool hit = x.IsFloat() ? (*x.floats)[i] != 0 : (*x.ints)[i] != 0;
    if (hit) places.push_back(static_cast<int64_t>(i));
  }
  std::vector<int64_t> values;
  for (size_t a = 0; a < strides.size(); ++a) {
    for (const int64_t place : places) values.push_back(place / strides[a] % x.dims[a]);
  }
  return {MakeInts({static_cast<int64_t>(strides.size()), static_cast<int64_t>(places.size())},
                   std::move(values))};
}

std::vector<OnnxTensor> FoldCast(const NodeImport& node) {
  const auto type = static_cast<int>(node.RequiredInt("to"));
  if (!IsNumberType(type) || type > TensorProto::BFLOAT16) return {};
  return {CastTensor(node.Weights(0, "input"), type)};
}

std::vector<OnnxTensor> FoldFlatten(const NodeImport& node) {
  const OnnxTensor& x = node.Weights(0, "input");
  int64_t axis = node.Int("axis", 1);
  if (axis < 0) axis += static_cast<int64_t>(x.dims.size());
  if (axis < 0 || axis > static_cast<int64_t>(x.dims.size())) node.Refuse("axis is outside");
  const auto split = static_cast<size_t>(axis);
  return {ReshapeTensor(x, {CountOf(x.dims, 0, split), CountOf(x.dims, split, x.dims.size())})};
}

}  // namespace

std::optional<std::vector<int64_t>> BroadcastDims(const Dims& a, const Dims& b) {
  Dims dims(std::max(a.size(), b.size()), 1);
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    dims[dims.size() - 1 - i] = x == 1 ? y : x;
  }
  return dims;
}

int64_t BoundedCount(const Dims& dims) {
  constexpr int64_t kMost = int64_t{1} << 40;
  int64_t count = 1;
  for (const int64_t dim : dims) {
    if (dim == 0) return 0;
    if (dim < 0 || dim > kMost / count) return kMost;
    count *= dim;
  }
  return count;
}

std::vector<int64_t> StridesOf(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<int64_t>(dims[i], 1);
  return strides;
}

OnnxTensor StridedCopy(const OnnxTensor& from, Dims dims, int64_t offset, const Dims& strides) {
  return Refill(from, dims, [&](const auto& source, auto& values) {
    Dims index(dims.size(), 0);
    int64_t place = offset;
    for (auto& value : values) {
      value = source[static_cast<size_t>(place)];
      for (size_t a = dims.size(); a-- > 0;) {
        place += strides[a];
        if (++index[a] < dims[a]) break;
        place -= strides[a] * dims[a];
        index[a] = 0;
      }
    }
  });
}

OnnxTensor BroadcastTensor(const OnnxTensor& from, const Dims& dims) {
  if (from.dims == dims) return from;
  const Dims own = StridesOf(from.dims);
  Dims strides(dims.size(), 0);
  const size_t missing = dims.size() - from.dims.size();
  for (size_t i = 0; i < own.size(); ++i) {
    if (from.dims[i] != 1) strides[missing + i] = own[i];
  }
  return StridedCopy(from, dims, 0, strides);
}

OnnxTensor TransposeTensor(const OnnxTensor& from, const Dims& order) {
  const Dims own = StridesOf(from.dims);
  Dims dims;
  Dims strides;
  for (const int64_t axis : order) {
    dims.push_back(from.dims[static_cast<size_t>(axis)]);
    strides.push_back(own[static_cast<size_t>(axis)]);
  }
  return StridedCopy(from, dims, 0, strides);
}

OnnxTensor ReshapeTensor(OnnxTensor from, Dims dims) {
  from.dims = std::move(dims);
  return from;
}

Dims CanonicalAxes(const NodeImport& node, Dims axes, size_t count) {
  const auto size = static_cast<int64_t>(count);
  for (int64_t& axis : axes) {
    if (axis < -size || axis >= size) {
      node.Refuse(StrCat("axis ", axis, " is outside of a shape with ", size, " axes"));
    }
    if (axis < 0) axis += size;
  }
  Dims sorted = axes;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end()) node.Refuse(StrCat("names axis ", *twice, " twice"));
  return axes;
}

int AxisOf(const NodeImport& node, const Shape& x, int64_t fallback) {
  return static_cast<int>(
      CanonicalAxes(node, {node.Int("axis", fallback)}, static_cast<size_t>(x.axes()))[0]);
}

Dims ReshapedDims(const NodeImport& node, const Dims& from, Dims to, bool allow_zero) {
  if (to.size() > static_cast<size_t>(kMostOnnxAxes)) node.Refuse("gives too many axes");
  int64_t known = 1;
  size_t inferred = to.size();
  const int64_t count = CountOf(from);
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] == 0 && !allow_zero) {
      if (i >= from.size()) node.Refuse(StrCat("copies axis ", i, ", which its input lacks"));
      to[i] = from[i];
    }
    if (to[i] == -1 && inferred == to.size()) {
      inferred = i;
      continue;
    }
    if (to[i] == -1) node.Refuse("gives -1 for more than one dimension");
    if (to[i] < 0) node.Refuse(StrCat("gives a dimension of ", to[i]));
    if (to[i] > 0 && known > std::numeric_limits<int64_t>::max() / to[i]) {
      node.Refuse("gives too many elements");
    }
    known *= to[i];
  }
  if (inferred < to.size()) {
    if (known == 0 || count % known != 0) node.Refuse("leaves no whole size for -1");
    to[inferred] = count / known;
    known *= to[inferred];
  }
  if (known != count) {
    node.Refuse(StrCat("gives a shape of ", known, " elements to ", count));
  }
  return to;
}

Dims UnsqueezedDims(const NodeImport& node) {
  Dims axes = node.IntsOf("axes", 1);
  const auto own = node.ShapeOf(0).dims();
  if (own.size() + axes.size() > static_cast<size_t>(kMostOnnxAxes))
    node.Refuse("adds too many axes");
  axes = CanonicalAxes(node, axes, own.size() + axes.size());
  std::ranges::sort(axes);
  Dims dims(own.begin(), own.end());
  for (const int64_t axis : axes) dims.insert(dims.begin() + axis, 1);
  return dims;
}

Dims SqueezedDims(const NodeImport& node) {
  const auto own = node.ShapeOf(0).dims();
  const Dims axes = CanonicalAxes(node, node.IntsOf("axes", 1), own.size());
  Dims dims;
  for (size_t i = 0; i < own.size(); ++i) {
    const bool listed = std::ranges::find(axes, static_cast<int64_t>(i)) != axes.end();
    if (listed && own[i] != 1) node.Refuse(StrCat("axis ", i, " has size ", own[i]));
    if (!listed && (own[i] != 1 || !axes.empty())) dims.push_back(own[i]);
  }
  return dims;
}

SliceBounds SliceBoundsOf(const NodeImport& node) {
  const auto own = node.ShapeOf(0).dims();
  const Dims starts = node.IntsOf("starts", 1);
  const Dims ends = node.IntsOf("ends", 2);
  Dims axes = node.IntsOf("axes", 3);
  Dims steps = node.Has(4) ? node.Ints(4, "steps") : Dims(starts.size(), 1);
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  axes = CanonicalAxes(node, axes, own.size());
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    node.Refuse("has starts, ends, axes and steps of different lengths");
  }
  SliceBounds bounds{Dims(own.size(), 0), Dims(own.size(), 1), Dims(own.begin(), own.end())};
  for (size_t i = 0; i < starts.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    const int64_t size = own[axis];
    int64_t step = std::clamp(steps[i], -size - 1, size + 1);
    if (step == 0) node.Refuse("has a step of 0");
    const bool back = step < 0;
    const auto place = [&](int64_t value, int64_t least) {
      if (value < 0) value = value < -size ? -1 : value + size;
      return std::clamp(value, least, std::max(least, back ? size - 1 : size));
    };
    const int64_t start = place(starts[i], 0);
    const int64_t end = place(ends[i], back ? -1 : 0);
    const int64_t length = back ? start - end : end - start;
    const int64_t stride = back ? -step : step;
    bounds.start[axis] = std::max<int64_t>(start, 0);
    bounds.step[axis] = step;
    bounds.size[axis] = size == 0 || length <= 0 ? 0 : (length + stride - 1) / stride;
  }
  return bounds;
}

Dims SplitSizes(const NodeImport& node, int64_t size) {
  Dims sizes = node.IntsOf("split", 1);
  const auto parts = static_cast<int64_t>(node.outputs());
  if (const int64_t given = node.Int("num_outputs", parts); given != parts) {
    node.Refuse(StrCat("has ", parts, " outputs, but num_outputs is ", given));
  }
  if (sizes.empty()) {
    const int64_t part = (size + parts - 1) / parts;
    for (int64_t i = 0; i < parts; ++i) {
      sizes.push_back(std::clamp<int64_t>(size - i * part, 0, part));
    }
  }
  int64_t sum = 0;
  for (const int64_t part : sizes) {
    if (part < 0 || part > size) node.Refuse(StrCat("has a part of ", part));
    sum += part;
  }
  if (sum != size || static_cast<int64_t>(sizes.size()) != parts) {
    node.Refuse(StrCat("has parts that do not add up to ", size));
  }
  return sizes;
}

void AddMoveFolds(FoldTable* table) {
  (*table)["Gather"] = FoldGather;
  (*table)["Concat"] = FoldConcat;
  (*table)["Split"] = FoldSplit;
  (*table)["Transpose"] = FoldTranspose;
  (*table)["Expand"] = FoldExpand;
  (*table)["Tile"] = FoldTile;
  (*table)["ConstantOfShape"] = FoldConstantOfShape;
  (*table)["NonZero"] = FoldNonZero;
  (*table)["Cast"] = FoldCast;
  (*table)["Flatten"] = FoldFlatten;
  (*table)["Slice"] = [](const NodeImport& node) -> std::vector<OnnxTensor> {
    const SliceBounds bounds = SliceBoundsOf(node);
    return {Slice(node.Weights(0, "input"), bounds)};
  };
  (*table)["Reshape"] = [](const NodeImport& node) -> std::vector<OnnxTensor> {
    const OnnxTensor& x = node.Weights(0, "input");
    return {ReshapeTensor(
        x, ReshapedDims(node, x.dims, node.IntsOf("shape", 1), node.Int("allowzero", 0) != 0))};
  };
  (*table)["Unsqueeze"] = [](const NodeImport& node) -> std::vector<OnnxTensor> {
    return {ReshapeTensor(node.Weights(0, "input"), UnsqueezedDims(node))};
  };
  (*table)["Squeeze"] = [](const NodeImport& node) -> std::vector<OnnxTensor> {
    return {ReshapeTensor(node.Weights(0, "input"), SqueezedDims(node))};
  };
}

}  // namespace crema
