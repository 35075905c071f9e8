// Reshapes and transposes. A chain of them becomes three layers at most, and cuts of its result
// become cuts of its source, so that what exporters write as a view costs no time.
#include <algorithm>
#include <numeric>
#include <optional>

#include "onnx/import_blocks.h"

namespace crema {

std::vector<int64_t> DimsOf(const OnnxBlob& blob) {
  return {blob.shape.dims().begin(), blob.shape.dims().end()};
}

namespace {

using Groups = std::vector<std::vector<size_t>>;  // factors of each axis, in order

// A batch of 1 is a factor too: other batches may take its place when the net runs.
MovedBlob Unmoved(const OnnxBlob& blob) {
  MovedBlob move{blob, {}, {}};
  for (int i = 0; i < blob.shape.axes(); ++i) {
    if (i == 0 || blob.shape[i] != 1) move.factors.push_back(blob.shape[i]);
  }
  move.order.resize(move.factors.size());
  std::iota(move.order.begin(), move.order.end(), 0);
  return move;
}

MovedBlob MoveOf(const NodeImport& node, const OnnxBlob& blob) {
  const MovedBlob* moved = node.Moved(blob);
  return moved == nullptr ? Unmoved(blob) : *moved;
}

void SplitFactor(MovedBlob* move, size_t place, int64_t first) {
  const size_t factor = move->order[place];
  const int64_t rest = move->factors[factor] / first;
  move->factors[factor] = first;
  move->factors.insert(move->factors.begin() + static_cast<std::ptrdiff_t>(factor) + 1, rest);
  for (size_t& other : move->order) other += other > factor ? 1 : 0;
  move->order.insert(move->order.begin() + static_cast<std::ptrdiff_t>(place) + 1, factor + 1);
}

void RemoveFactor(MovedBlob* move, size_t factor) {
  move->factors.erase(move->factors.begin() + static_cast<std::ptrdiff_t>(factor));
  std::erase(move->order, factor);
  for (size_t& other : move->order) other -= other > factor ? 1 : 0;
}

// Joins factors that stay next to each other, but a batch of 1.
void Merge(MovedBlob* move) {
  for (size_t i = 1; i < move->order.size();) {
    const size_t before = move->order[i - 1];
    if (move->order[i] == before + 1 && move->factors[before] != 1) {
      move->factors[before] *= move->factors[before + 1];
      RemoveFactor(move, before + 1);
    } else {
      ++i;
    }
  }
}

// Splits factors so that each axis of `dims` is a group of them. Returns nothing if they do not
// divide.
std::optional<Groups> Split(MovedBlob* move, const Dims& dims) {
  Groups groups(dims.size());
  size_t place = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t left = dims[i];
    while (place < move->order.size()) {
      const int64_t factor = move->factors[move->order[place]];
      if (left == 1 && (factor != 1 || dims[i] != 1 || !groups[i].empty())) break;
      if (left % factor != 0) {
        if (factor % left != 0) return std::nullopt;
        SplitFactor(move, place, left);
        continue;
      }
      left /= factor;
      groups[i].push_back(place++);
    }
    if (left != 1) return std::nullopt;
  }
  if (place < move->order.size() && dims.empty()) return std::nullopt;
  while (place < move->order.size()) groups.back().push_back(place++);
  for (auto& group : groups) {
    for (size_t& entry : group) entry = move->order[entry];
  }
  return groups;
}

OnnxBlob AddReshape(NodeImport& node, const OnnxBlob& from, const Dims& dims) {
  if (DimsOf(from) == dims) return from;
  return node.Add("Reshape", {from}, [&](LayerParameter* layer) {
    auto* shape = layer->mutable_reshape_param()->mutable_shape();
    bool same = from.shape.count() > 0;
    for (size_t i = 0; i < dims.size(); ++i) {
      same = same && static_cast<int>(i) < from.shape.axes() &&
             from.shape[static_cast<int>(i)] == dims[i];
      shape->add_dim(same ? 0 : dims[i]);
    }
  });
}

OnnxBlob AddPermute(NodeImport& node, const OnnxBlob& from, const std::vector<size_t>& order) {
  if (std::ranges::is_sorted(order)) return from;
  return node.Add("Permute", {from}, [&](LayerParameter* layer) {
    for (const size_t axis : order) {
      layer->mutable_permute_param()->add_order(static_cast<uint32_t>(axis));
    }
  });
}

// Returns the axes of `dims` that lie in each factor, taken in `order`; nothing: one lies in two.
// An axis of 1 belongs to a batch of 1 whose turn it is, or to the factor before it.
std::optional<Groups> AxesOfFactors(const Dims& factors, const std::vector<size_t>& order,
                                    const Dims& dims) {
  Groups axes(factors.size());
  size_t place = 0;
  int64_t left = order.empty() ? 1 : factors[order[0]];
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool batch =
        place < order.size() && factors[order[place]] == 1 && axes[order[place]].empty();
    if (dims[i] == 1 && !batch && place > 0 && left == factors[order[place]]) {
      axes[order[place - 1]].push_back(i);  // between two factors
      continue;
    }
    while (left == 1 && dims[i] != 1 && place + 1 < order.size()) left = factors[order[++place]];
    if (order.empty() || left % dims[i] != 0) return std::nullopt;
    left /= dims[i];
    axes[order[place]].push_back(i);
    if (left == 1 && place + 1 < order.size()) left = factors[order[++place]];
  }
  return axes;
}

std::vector<size_t> InOrder(const Groups& groups, const std::vector<size_t>& order) {
  std::vector<size_t> all;
  for (const size_t i : order) all.insert(all.end(), groups[i].begin(), groups[i].end());
  return all;
}

Dims Picked(const Dims& dims, const std::vector<size_t>& axes) {
  Dims picked;
  for (const size_t axis : axes) picked.push_back(dims[axis]);
  return picked;
}

// Returns an order of `from` that gives `to`, where only axes of 1 lie elsewhere than in `order`.
std::optional<std::vector<size_t>> WithOnes(const Dims& from, const std::vector<size_t>& order,
                                            const Dims& to) {
  if (from.size() != to.size()) return std::nullopt;
  std::vector<size_t> ones;
  std::vector<size_t> others;
  for (const size_t axis : order) (from[axis] == 1 ? ones : others).push_back(axis);
  std::vector<size_t> result;
  size_t one = 0;
  size_t other = 0;
  for (const int64_t dim : to) {
    if (dim == 1 && one < ones.size()) {
      result.push_back(ones[one++]);
    } else if (other < others.size() && from[others[other]] == dim) {
      result.push_back(others[other++]);
    } else {
      return std::nullopt;
    }
  }
  return result;
}

// N x C x ... with groups of C swapped; 0: it is none.
int64_t ShuffledGroups(const MovedBlob& move, const Dims& dims) {
  if (dims.size() < 3 || DimsOf(move.source) != dims) return 0;
  if (move.factors.size() < 3 || move.factors[0] != dims[0]) return 0;
  std::vector<size_t> wanted(move.order.size());
  std::iota(wanted.begin(), wanted.end(), 0);
  std::swap(wanted[1], wanted[2]);
  if (move.order != wanted || move.factors[1] * move.factors[2] != dims[1]) return 0;
  return move.factors[1];
}

// A reshape, a permute and a reshape, of factors.
OnnxBlob MoveFactors(NodeImport& node, MovedBlob move, const Dims& dims) {
  const Dims from = DimsOf(move.source);
  if (!from.empty() && !dims.empty() && from[0] == dims[0] && from[0] > 1 && move.order[0] == 0 &&
      move.factors[0] > from[0] && move.factors[0] % from[0] == 0) {
    SplitFactor(&move, 0, from[0]);  // the batch stays an axis
  }
  const OnnxBlob apart = AddReshape(node, move.source, move.factors);
  return AddReshape(node, AddPermute(node, apart, move.order), dims);
}

// Adds the layers of a move to a blob of `dims`.
OnnxBlob AddMove(NodeImport& node, MovedBlob move, const Dims& dims, int type) {
  Merge(&move);
  const Dims from = DimsOf(move.source);
  OnnxBlob result = move.source;
  bool recorded = true;
  if (std::ranges::is_sorted(move.order)) {
    result = AddReshape(node, move.source, dims);
  } else if (const int64_t groups = ShuffledGroups(move, dims); groups > 0) {
    result = node.Add("ShuffleChannel", {move.source}, [&](LayerParameter* layer) {
      layer->mutable_shuffle_channel_param()->set_group(static_cast<uint32_t>(groups));
    });
    recorded = false;  // a layer of its own
  } else {
    std::vector<size_t> natural(move.order.size());
    std::iota(natural.begin(), natural.end(), 0);
    const auto before = AxesOfFactors(move.factors, natural, from);
    const auto after = AxesOfFactors(move.factors, move.order, dims);
    if (before) {
      const std::vector<size_t> order = InOrder(*before, move.order);
      const auto exact = WithOnes(from, order, dims);
      result = AddReshape(node, AddPermute(node, move.source, exact ? *exact : order), dims);
    } else if (after) {
      const std::vector<size_t> axes = InOrder(*after, natural);
      std::vector<size_t> order(axes.size());
      for (size_t i = 0; i < axes.size(); ++i) order[axes[i]] = i;
      result = AddPermute(node, AddReshape(node, move.source, Picked(dims, axes)), order);
    } else {
      result = MoveFactors(node, move, dims);
    }
  }
  if (recorded && result.name != move.source.name) node.SetMoved(result, std::move(move));
  return WithType(result, type);
}

OnnxBlob AddCut(NodeImport& node, const OnnxBlob& blob, int axis, int64_t start, int64_t size) {
  const OnnxBlob result = node.Add("StridedSlice", {blob}, [&](LayerParameter* layer) {
    StridedSliceParameter* param = layer->mutable_strided_slice_param();
    param->add_start(start);
    param->add_end(start + size);
    param->add_axes(axis);
  });
  if (axis == blob.shape.axes() - 1) node.SetCut(result, {blob, start});
  return result;
}

}  // namespace

OnnxBlob ReshapeBlob(NodeImport& node, const OnnxBlob& blob, const std::vector<int64_t>& dims) {
  if (DimsOf(blob) == dims) return blob;
  if (blob.shape.count() == 0 || dims.empty()) {
    return WithType(AddReshape(node, blob, dims), blob.type);
  }
  MovedBlob move = MoveOf(node, blob);
  if (std::ranges::is_sorted(move.order)) move = Unmoved(move.source);
  if (!Split(&move, dims)) {
    const bool sorted = std::ranges::is_sorted(move.order);
    move = {sorted ? move.source : blob, {blob.shape.count()}, {0}};
    if (!Split(&move, dims)) node.Refuse("is reshaped to another number of elements");
  }
  return AddMove(node, std::move(move), dims, blob.type);
}

OnnxBlob PermuteBlob(NodeImport& node, const OnnxBlob& blob, const std::vector<int64_t>& order) {
  if (std::ranges::is_sorted(order)) return blob;
  std::vector<size_t> axes(order.begin(), order.end());
  Dims dims = DimsOf(blob);
  MovedBlob move = MoveOf(node, blob);
  std::optional<Groups> groups;
  if (blob.shape.count() > 0) groups = Split(&move, dims);
  if (!groups) return WithType(AddPermute(node, blob, axes), blob.type);
  move.order = InOrder(*groups, axes);
  return AddMove(node, std::move(move), Picked(dims, axes), blob.type);
}

OnnxBlob PermuteBlobBack(NodeImport& node, const OnnxBlob& blob,
                         const std::vector<int64_t>& order) {
  Dims back(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  }
  return PermuteBlob(node, blob, back);
}

OnnxBlob CutBlob(NodeImport& node, const OnnxBlob& blob, int axis, int64_t start, int64_t size) {
  if (start == 0 && size == blob.shape[axis]) return blob;
  const auto direct = [&] { return WithType(AddCut(node, blob, axis, start, size), blob.type); };
  if (node.Moved(blob) == nullptr || size == 0) return direct();
  MovedBlob move = *node.Moved(blob);
  Dims dims = DimsOf(blob);
  const auto groups = Split(&move, dims);
  if (!groups || (*groups)[static_cast<size_t>(axis)].size() != 1) return direct();
  const size_t factor = (*groups)[static_cast<size_t>(axis)][0];
  // It must be the first factor of an axis of the source.
  int64_t outer = 1;
  for (size_t i = 0; i < factor; ++i) outer *= move.factors[i];
  const Shape from = move.source.shape;
  int source_axis = 0;
  while (source_axis < from.axes() && (outer > 1 || from[source_axis] == 1)) {
    if (outer % from[source_axis] != 0) return direct();
    outer /= from[source_axis++];
  }
  if (source_axis == from.axes() || from[source_axis] % move.factors[factor] != 0) return direct();
  const int64_t inner = from[source_axis] / move.factors[factor];
  move.source = AddCut(node, move.source, source_axis, start * inner, size * inner);
  move.factors[factor] = size;
  if (size == 1 && factor > 0) RemoveFactor(&move, factor);
  dims[static_cast<size_t>(axis)] = size;
  return AddMove(node, std::move(move), dims, blob.type);
}

std::optional<OnnxBlob> PackedBlob(NodeImport& node, const std::vector<OnnxBlob>& parts) {
  const Dims dims = DimsOf(parts[0]);
  const auto count = static_cast<int64_t>(parts.size());
  MovedBlob whole;
  for (size_t i = 0; i < parts.size(); ++i) {
    MovedBlob move = MoveOf(node, parts[i]);
    const auto groups = DimsOf(parts[i]) == dims ? Split(&move, dims) : std::nullopt;
    const MovedBlob* moved = node.Moved(parts[i]);
    const OnnxBlob& source = moved == nullptr ? parts[i] : moved->source;
    const CutOfBlob* cut = node.Cut(source);
    const int last = source.shape.axes() - 1;
    if (!groups || cut == nullptr || source.shape[last] != dims.back() ||
        groups->back() != std::vector<size_t>{move.factors.size() - 1} ||
        cut->start != static_cast<int64_t>(i) * dims.back() ||
        cut->source.shape[last] != count * dims.back()) {
      return std::nullopt;
    }
    move.source = cut->source;
    if (i == 0) whole = move;
    if (whole.source.name != move.source.name || whole.factors != move.factors ||
        whole.order != move.order) {
      return std::nullopt;
    }
  }
  whole.factors.back() *= count;
  Dims all = dims;
  all.back() *= count;
  return AddMove(node, std::move(whole), all, parts[0].type);
}

std::optional<OnnxBlob> SourceOfRows(const NodeImport& node, const OnnxBlob& blob) {
  const MovedBlob* moved = node.Moved(blob);
  if (moved == nullptr || blob.shape.axes() < 2) return std::nullopt;
  const Shape& from = moved->source.shape;
  MovedBlob move = *moved;
  const auto groups = Split(&move, DimsOf(blob));
  if (!groups || from.axes() < 2 || from[from.axes() - 1] != blob.shape[blob.shape.axes() - 1] ||
      move.factors.back() != from[from.axes() - 1] || groups->back().empty() ||
      groups->back().back() != move.factors.size() - 1) {
    return std::nullopt;
  }
  std::vector<size_t> moving;  // without a batch of 1
  for (const size_t factor : move.order) {
    if (move.factors[factor] != 1) moving.push_back(factor);
  }
  if (!std::ranges::is_sorted(moving)) {  // whole axes may move
    Merge(&move);
    std::vector<size_t> natural(move.order.size());
    std::iota(natural.begin(), natural.end(), 0);
    if (!AxesOfFactors(move.factors, natural, DimsOf(move.source))) return std::nullopt;
  }
  return moved->source;
}

OnnxBlob MoveRows(NodeImport& node, const OnnxBlob& like, const OnnxBlob& rows) {
  MovedBlob move = *node.Moved(like);
  Dims dims = DimsOf(like);
  Split(&move, dims);
  move.source = rows;
  dims.back() = rows.shape[rows.shape.axes() - 1];
  move.factors.back() = dims.back();
  if (dims.back() == 1) RemoveFactor(&move, move.factors.size() - 1);
  return AddMove(node, std::move(move), dims, rows.type);
}

}  // namespace crema
