#include "onnx/import_blocks.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "onnx/import_fold.h"

namespace crema {

using onnx::TensorProto;

OnnxBlob ExpandBlob(NodeImport& node, const OnnxBlob& blob, const std::vector<int64_t>& dims) {
  if (DimsOf(blob) == dims) return blob;
  return node.Add("Expand", {blob}, [&](LayerParameter* layer) {
    auto* shape = layer->mutable_expand_param()->mutable_shape();
    const auto added = static_cast<int>(dims.size()) - blob.shape.axes();
    for (int i = 0; i < static_cast<int>(dims.size()); ++i) {
      const int64_t dim = dims[static_cast<size_t>(i)];
      const bool same = i >= added && blob.shape[i - added] == dim;
      shape->add_dim(same ? 1 : dim);  // 1 keeps the size, also at other sizes of the input
    }
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

bool IsSignedType(int type) {
  switch (type) {
    case TensorProto::INT2:
    case TensorProto::INT4:
    case TensorProto::INT8:
    case TensorProto::INT16:
    case TensorProto::INT32:
    case TensorProto::INT64:
      return true;
    default:
      return false;
  }
}

int BitsOf(int type) {
  switch (type) {
    case TensorProto::INT2:
    case TensorProto::UINT2:
      return 2;
    case TensorProto::INT4:
    case TensorProto::UINT4:
      return 4;
    case TensorProto::INT8:
    case TensorProto::UINT8:
      return 8;
    case TensorProto::INT16:
    case TensorProto::UINT16:
      return 16;
    case TensorProto::INT64:
    case TensorProto::UINT64:
      return 64;
    default:
      return 32;
  }
}

OnnxBlob WrappedBlob(NodeImport& node, const OnnxBlob& x, int type) {
  const float range = std::ldexp(1.0F, BitsOf(type));
  const float half = range / 2;
  if (!IsSignedType(type)) return BinaryBlob(node, BinaryParameter::MOD, x, range);
  if (BitsOf(type) <= 16) {
    const OnnxBlob raised = PowerBlob(node, x, 1, 1, half);
    return PowerBlob(node, BinaryBlob(node, BinaryParameter::MOD, raised, range), 1, 1, -half);
  }
  // Floats of this size have no place for a sum with `half`.
  const OnnxBlob rest = BinaryBlob(node, BinaryParameter::FMOD, x, range);
  const OnnxBlob high = BinaryBlob(node, BinaryParameter::GREATER_OR_EQUAL, rest, half);
  const OnnxBlob low = BinaryBlob(node, BinaryParameter::LESS, rest, -half);
  const OnnxBlob turns = BinaryBlob(node, BinaryParameter::SUB, low, high);
  return BinaryBlob(node, BinaryParameter::ADD, rest, PowerBlob(node, turns, 1, range, 0));
}

OnnxBlob WholeBlob(NodeImport& node, const OnnxBlob& x) {
  return node.Add("Cast", {x},
                  [](LayerParameter* layer) { layer->mutable_cast_param()->set_to(INT); });
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

OnnxBlob ConcatBlob(NodeImport& node, const std::vector<OnnxBlob>& parts, int axis) {
  return node.Add("Concat", parts, [&](LayerParameter* layer) {
    if (axis != 1) layer->mutable_concat_param()->set_axis(axis);
  });
}

OnnxBlob InnerProductBlob(NodeImport& node, const OnnxBlob& x, const OnnxTensor& weight,
                          const std::optional<OnnxTensor>& bias) {
  std::vector<OnnxTensor> weights = {weight};
  if (bias) weights.push_back(*bias);
  return node.Add(
      "InnerProduct", {x},
      [&](LayerParameter* layer) {
        InnerProductParameter* param = layer->mutable_inner_product_param();
        param->set_num_output(static_cast<uint32_t>(weight.dims[0]));
        if (!bias) param->set_bias_term(false);
        if (x.shape.axes() != 2) param->set_axis(x.shape.axes() - 1);
      },
      std::move(weights));
}

std::optional<OnnxTensor> LessZeroPoints(const OnnxTensor& weights, const OnnxTensor& zero) {
  if (zero.count() != 1 && zero.count() != weights.dims[0]) return std::nullopt;
  std::vector<int64_t> along(weights.dims.size(), 1);
  along[0] = zero.count();
  const OnnxTensor all = BroadcastTensor(ReshapeTensor(ToFloats(zero), along), weights.dims);
  std::vector<float> values = *weights.floats;
  for (size_t i = 0; i < values.size(); ++i) values[i] -= (*all.floats)[i];
  return MakeFloats(weights.dims, std::move(values));
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
