// Operators on numbers of 8 bits, computed on floats: every such number is exact in one.
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

struct Range {
  float low;
  float high;
};

Range RangeOf(const NodeImport& node, int type) {
  switch (type) {
    case TensorProto::INT8:
      return {-128, 127};
    case TensorProto::UINT8:
      return {0, 255};
    case TensorProto::INT16:
      return {-32768, 32767};
    case TensorProto::UINT16:
      return {0, 65535};
    default:
      node.Refuse(StrCat("quantizes to ", OnnxTypeName(type)));
  }
}

OnnxBlob Clip(NodeImport& node, const OnnxBlob& x, Range range) {
  return node.Add("Clip", {x}, [&](LayerParameter* layer) {
    layer->mutable_clip_param()->set_min(range.low);
    layer->mutable_clip_param()->set_max(range.high);
  });
}

// A scale or zero point as a blob that broadcasts along `axis` of x.
OnnxBlob Along(NodeImport& node, const OnnxBlob& x, size_t input) {
  const OnnxBlob values = node.In(input);
  if (values.shape.count() == 1 || values.shape.axes() != 1) return ReshapeBlob(node, values, {});
  const Dims axis = CanonicalAxes(node, {node.Int("axis", 1)}, static_cast<size_t>(x.shape.axes()));
  Dims dims(static_cast<size_t>(x.shape.axes()), 1);
  dims[static_cast<size_t>(axis[0])] = values.shape[0];
  return ReshapeBlob(node, values, dims);
}

// x op parameter, which may be a constant of one element.
OnnxBlob With(NodeImport& node, BinaryParameter::Operation operation, const OnnxBlob& x,
              size_t input) {
  const OnnxTensor* constant = node.Constant(input);
  if (constant != nullptr && constant->count() == 1) {
    const float value = node.Floats(input, "parameter")[0];
    const bool adds = operation == BinaryParameter::ADD || operation == BinaryParameter::SUB;
    return adds && value == 0 ? x : BinaryBlob(node, operation, x, value);
  }
  return BinaryBlob(node, operation, x, Along(node, x, input));
}

void RefuseBlocks(const NodeImport& node) {
  if (node.Int("block_size", 0) != 0) node.Refuse("quantizes in blocks");
}

void ConvertQuantizeLinear(NodeImport& node) {
  RefuseBlocks(node);
  int type = static_cast<int>(node.Int("output_dtype", 0));
  if (node.Has(2)) type = node.TypeOf(2);
  if (type == 0) type = TensorProto::UINT8;
  const Range range = RangeOf(node, type);
  OnnxBlob y = With(node, BinaryParameter::DIV, node.In(0), 1);
  y = UnaryBlob(node, UnaryParameter::ROUND, y);
  if (node.Has(2)) y = With(node, BinaryParameter::ADD, y, 2);
  node.Output(0, WithType(Clip(node, y, range), type));
}

void ConvertDequantizeLinear(NodeImport& node) {
  RefuseBlocks(node);
  OnnxBlob x = node.In(0);
  if (node.Has(2)) x = With(node, BinaryParameter::SUB, x, 2);
  node.Output(0, WithType(With(node, BinaryParameter::MUL, x, 1), node.TypeOf(1)));
}

void ConvertDynamicQuantizeLinear(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  Dims axes;
  for (int i = 0; i < x.shape.axes(); ++i) axes.push_back(i);
  const auto extreme = [&](ReductionParameter::ReductionOp operation, bool max) {
    const OnnxBlob reduced = ReshapeBlob(node, ReduceBlob(node, operation, x, axes), {});
    return BinaryBlob(node, max ? BinaryParameter::MAX : BinaryParameter::MIN, reduced, 0);
  };
  const OnnxBlob low = extreme(ReductionParameter::MIN, false);
  const OnnxBlob high = extreme(ReductionParameter::MAX, true);
  const OnnxBlob span = BinaryBlob(node, BinaryParameter::SUB, high, low);
  // Zeros have a scale too, so that they are divided to zeros.
  const OnnxBlob scale =
      BinaryBlob(node, BinaryParameter::MAX, BinaryBlob(node, BinaryParameter::DIV, span, 255),
                 std::numeric_limits<float>::min());
  const OnnxBlob negative = PowerBlob(node, low, 1, -1, 0);
  OnnxBlob zero = BinaryBlob(node, BinaryParameter::DIV, negative, scale);
  zero = Clip(node, UnaryBlob(node, UnaryParameter::ROUND, zero), {0, 255});
  OnnxBlob y = BinaryBlob(node, BinaryParameter::DIV, x, scale);
  y = BinaryBlob(node, BinaryParameter::ADD, UnaryBlob(node, UnaryParameter::ROUND, y), zero);
  node.Output(0, WithType(Clip(node, y, {0, 255}), TensorProto::UINT8));
  node.Output(1, scale);
  node.Output(2, WithType(zero, TensorProto::UINT8));
}

// Returns x - its zero point. One zero point for each row or column is put on that axis.
OnnxBlob Centred(NodeImport& node, size_t input, size_t zero, bool rows) {
  const OnnxBlob x = node.In(input);
  if (!node.Has(zero)) return x;
  const OnnxTensor* constant = node.Constant(zero);
  if (constant != nullptr && constant->count() == 1)
    return With(node, BinaryParameter::SUB, x, zero);
  OnnxBlob point = node.In(zero);
  if (point.shape.axes() == 1 && rows && point.shape[0] != 1) {
    point = ReshapeBlob(node, point, {point.shape[0], 1});
  }
  return BinaryBlob(node, BinaryParameter::SUB, x, point);
}

OnnxBlob Product(NodeImport& node, const OnnxBlob& a, const OnnxBlob& b) {
  if (a.shape.axes() < 2 || b.shape.axes() < 2) node.Refuse("multiplies vectors");
  return node.Add("MatMul", {a, b});
}

// Returns the second operand of MatMulInteger less its zero point, as outputs x inputs; nothing: it
// is no constant matrix.
std::optional<OnnxTensor> CentredWeights(const NodeImport& node) {
  const OnnxTensor* weight = node.Constant(1);
  if (weight == nullptr || weight->dims.size() != 2 || node.ShapeOf(0).axes() < 2) return {};
  OnnxTensor rows = TransposeTensor(ToFloats(*weight), {1, 0});
  if (!node.Has(3)) return rows;
  if (node.Constant(3) == nullptr) return {};
  return LessZeroPoints(rows, *node.Constant(3));
}

void ConvertMatMulInteger(NodeImport& node) {
  const OnnxBlob a = Centred(node, 0, 2, true);
  if (const auto weights = CentredWeights(node)) {
    return node.Output(0, WithType(InnerProductBlob(node, a, *weights), TensorProto::INT32));
  }
  const OnnxBlob b = Centred(node, 1, 3, false);
  node.Output(0, WithType(Product(node, a, b), TensorProto::INT32));
}

// Quantizes a real result with scale `scale` and zero point `scale` + 1.
OnnxBlob Requantized(NodeImport& node, const OnnxBlob& real, size_t scale) {
  const int type = node.TypeOf(scale + 1);
  OnnxBlob y = BinaryBlob(node, BinaryParameter::DIV, real, node.In(scale));
  y = UnaryBlob(node, UnaryParameter::ROUND, y);
  y = BinaryBlob(node, BinaryParameter::ADD, y, node.In(scale + 1));
  return WithType(Clip(node, y, RangeOf(node, type)), type);
}

void ConvertQLinearMatMul(NodeImport& node) {
  const OnnxBlob a = Centred(node, 0, 2, true);
  const OnnxBlob b = Centred(node, 3, 5, false);
  OnnxBlob y = Product(node, a, b);
  const OnnxBlob scale = BinaryBlob(node, BinaryParameter::MUL, node.In(1), node.In(4));
  y = BinaryBlob(node, BinaryParameter::MUL, y, scale);
  node.Output(0, Requantized(node, y, 6));
}

}  // namespace

void AddQuantizationConverters(ConverterTable* table) {
  (*table)["QuantizeLinear"] = ConvertQuantizeLinear;
  (*table)["DequantizeLinear"] = ConvertDequantizeLinear;
  (*table)["DynamicQuantizeLinear"] = ConvertDynamicQuantizeLinear;
  (*table)["MatMulInteger"] = ConvertMatMulInteger;
  (*table)["QLinearMatMul"] = ConvertQLinearMatMul;
}

}  // namespace crema
