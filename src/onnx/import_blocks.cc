#include "onnx/import_blocks.h"

#include <algorithm>

namespace crema {

std::vector<int64_t> DimsOf(const OnnxBlob& blob) {
  return {blob.shape.dims().begin(), blob.shape.dims().end()};
}

namespace {

// Returns the groups of a channel shuffle: x reshaped to N x groups x C / groups x ..., with axes 1
// and 2 swapped, in the shape of x again; 0: it is none.
int64_t ShuffledGroups(const NodeImport& node, const OnnxBlob& blob,
                       const std::vector<int64_t>& dims, OnnxBlob* source) {
  const MovedBlob* swapped = node.Moved(blob);
  if (swapped == nullptr || swapped->order.size() != dims.size() + 1 || dims.size() < 3) return 0;
  for (size_t i = 0; i < swapped->order.size(); ++i) {
    const auto wanted = static_cast<int64_t>(i == 1 ? 2 : i == 2 ? 1 : i);
    if (swapped->order[i] != wanted) return 0;
  }
  const MovedBlob* split = node.Moved(swapped->source);
  if (split == nullptr || !split->order.empty() || DimsOf(split->source) != dims) return 0;
  const std::vector<int64_t> apart = DimsOf(swapped->source);
  if (apart[0] != dims[0] || apart[1] * apart[2] != dims[1]) return 0;
  for (size_t i = 2; i < dims.size(); ++i) {
    if (apart[i + 1] != dims[i]) return 0;
  }
  *source = split->source;
  return apart[1];
}

}  // namespace

OnnxBlob ReshapeBlob(NodeImport& node, const OnnxBlob& blob, const std::vector<int64_t>& dims) {
  if (DimsOf(blob) == dims) return blob;
  OnnxBlob from = blob;
  if (const int64_t groups = ShuffledGroups(node, blob, dims, &from); groups > 0) {
    return WithType(
        node.Add("ShuffleChannel", {from},
                 [&](LayerParameter* layer) {
                   layer->mutable_shuffle_channel_param()->set_group(static_cast<uint32_t>(groups));
                 }),
        blob.type);
  }
  if (const MovedBlob* moved = node.Moved(blob); moved != nullptr && moved->order.empty()) {
    from = moved->source;
  }
  if (DimsOf(from) == dims) return WithType(from, blob.type);
  const OnnxBlob result = node.Add("Reshape", {from}, [&](LayerParameter* layer) {
    auto* shape = layer->mutable_reshape_param()->mutable_shape();
    bool same = from.shape.count() > 0;
    for (size_t i = 0; i < dims.size(); ++i) {
      same = same && static_cast<int>(i) < from.shape.axes() &&
             from.shape[static_cast<int>(i)] == dims[i];
      shape->add_dim(same ? 0 : dims[i]);
    }
  });
  node.SetMoved(result, {from, {}});
  return WithType(result, blob.type);
}

OnnxBlob PermuteBlob(NodeImport& node, const OnnxBlob& blob, const std::vector<int64_t>& order) {
  OnnxBlob from = blob;
  std::vector<int64_t> whole = order;
  if (const MovedBlob* moved = node.Moved(blob); moved != nullptr && !moved->order.empty()) {
    from = moved->source;
    for (int64_t& axis : whole) axis = moved->order[static_cast<size_t>(axis)];
  }
  if (std::ranges::is_sorted(whole)) return WithType(from, blob.type);
  const OnnxBlob result = node.Add("Permute", {from}, [&](LayerParameter* layer) {
    for (const int64_t axis : whole) {
      layer->mutable_permute_param()->add_order(static_cast<uint32_t>(axis));
    }
  });
  node.SetMoved(result, {from, whole});
  return WithType(result, blob.type);
}

OnnxBlob ExpandBlob(NodeImport& node, const OnnxBlob& blob, const std::vector<int64_t>& dims) {
  if (DimsOf(blob) == dims) return blob;
  return node.Add("Expand", {blob}, [&](LayerParameter* layer) {
    for (const int64_t dim : dims) layer->mutable_expand_param()->mutable_shape()->add_dim(dim);
  });
}

OnnxBlob PadBlob(NodeImport& node, const OnnxBlob& blob, const std::vector<int64_t>& before,
                 const std::vector<int64_t>& after, float value, PadParameter::PadMode mode) {
  const auto is_zero = [](int64_t pad) { return pad == 0; };
  if (std::ranges::all_of(before, is_zero) && std::ranges::all_of(after, is_zero)) return blob;
  size_t first = 0;
  while (before[first] == 0 && after[first] == 0) ++first;
  return node.Add("Pad", {blob}, [&](LayerParameter* layer) {
    PadParameter* param = layer->mutable_pad_param();
    param->set_axis(static_cast<int>(first));
    for (size_t i = first; i < before.size(); ++i) {
      param->add_pad_before(static_cast<int>(before[i]));
      param->add_pad_after(static_cast<int>(after[i]));
    }
    if (mode != PadParameter::CONSTANT) param->set_mode(mode);
    if (mode == PadParameter::CONSTANT && value != 0) param->set_value(value);
  });
}

OnnxBlob CutBlob(NodeImport& node, const OnnxBlob& blob, int axis, int64_t start, int64_t size) {
  if (start == 0 && size == blob.shape[axis]) return blob;
  return node.Add("StridedSlice", {blob}, [&](LayerParameter* layer) {
    StridedSliceParameter* param = layer->mutable_strided_slice_param();
    param->add_start(start);
    param->add_end(start + size);
    param->add_axes(axis);
  });
}

OnnxBlob UnaryBlob(NodeImport& node, UnaryParameter::Operation operation, const OnnxBlob& x) {
  return node.Add("Unary", {x}, [&](LayerParameter* layer) {
    layer->mutable_unary_param()->set_operation(operation);
  });
}

OnnxBlob BinaryBlob(NodeImport& node, BinaryParameter::Operation operation, const OnnxBlob& a,
                    const OnnxBlob& b) {
  return node.Add("Binary", {a, b}, [&](LayerParameter* layer) {
    layer->mutable_binary_param()->set_operation(operation);
  });
}

OnnxBlob BinaryBlob(NodeImport& node, BinaryParameter::Operation operation, const OnnxBlob& a,
                    float value, bool value_first) {
  return node.Add("Binary", {a}, [&](LayerParameter* layer) {
    layer->mutable_binary_param()->set_operation(operation);
    layer->mutable_binary_param()->set_value(value);
    if (value_first) layer->mutable_binary_param()->set_value_first(true);
  });
}

OnnxBlob PowerBlob(NodeImport& node, const OnnxBlob& x, float power, float scale, float shift) {
  return node.Add("Power", {x}, [&](LayerParameter* layer) {
    PowerParameter* param = layer->mutable_power_param();
    if (power != 1) param->set_power(power);
    if (scale != 1) param->set_scale(scale);
    if (shift != 0) param->set_shift(shift);
  });
}

OnnxBlob ReduceBlob(NodeImport& node, ReductionParameter::ReductionOp operation, const OnnxBlob& x,
                    const std::vector<int64_t>& axes) {
  return node.Add("Reduction", {x}, [&](LayerParameter* layer) {
    ReductionParameter* param = layer->mutable_reduction_param();
    param->set_operation(operation);
    for (const int64_t axis : axes) param->add_axes(static_cast<int>(axis));
    param->set_keep_dims(true);
  });
}

}  // namespace crema
