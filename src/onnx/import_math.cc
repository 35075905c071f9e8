// Elementwise operators of two and more inputs.
#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/import_blocks.h"
#include "onnx/import_convert.h"
#include "onnx/import_fold.h"

namespace crema {
namespace {

using onnx::TensorProto;

// A constant operand that covers neighbouring axes of x: Scale and Bias take it.
struct Covered {
  bool fits = false;
  int axis = 0;
  OnnxTensor values;  // with the dimensions of the covered axes
};

Covered CoveredAxes(const Shape& x, const OnnxTensor& constant) {
  const auto missing = x.axes() - static_cast<int>(constant.dims.size());
  if (missing < 0 || constant.count() < 2) return {};
  int first = x.axes();
  int last = -1;
  for (int i = missing; i < x.axes(); ++i) {
    const int64_t dim = constant.dims[static_cast<size_t>(i - missing)];
    if (dim == 1) continue;
    if (dim != x[i]) return {};
    first = std::min(first, i);
    last = i;
  }
  for (int i = first; i <= last; ++i) {
    if (constant.dims[static_cast<size_t>(i - missing)] != x[i]) return {};
  }
  const auto dims = x.dims();
  return {true, first,
          ReshapeTensor(ToFloats(constant), Dims(dims.begin() + first, dims.begin() + last + 1))};
}

OnnxTensor MapFloats(const OnnxTensor& from, float (*function)(float)) {
  std::vector<float> values = *from.floats;
  for (float& value : values) value = function(value);
  return MakeFloats(from.dims, std::move(values));
}

OnnxBlob AddBias(NodeImport& node, const OnnxBlob& x, const Covered& bias) {
  return node.Add(
      "Bias", {x},
      [&](LayerParameter* layer) {
        layer->mutable_bias_param()->set_axis(bias.axis);
        layer->mutable_bias_param()->set_num_axes(static_cast<int>(bias.values.dims.size()));
      },
      {bias.values});
}

OnnxBlob AddScale(NodeImport& node, const OnnxBlob& x, const Covered& scale) {
  return node.Add(
      "Scale", {x},
      [&](LayerParameter* layer) {
        layer->mutable_scale_param()->set_axis(scale.axis);
        layer->mutable_scale_param()->set_num_axes(static_cast<int>(scale.values.dims.size()));
      },
      {scale.values});
}

// x op constant, where the result has the shape of x and layers of Caffe compute it.
bool ByConstant(NodeImport& node, BinaryParameter::Operation operation, const OnnxBlob& x,
                const OnnxTensor& constant, OnnxBlob* result) {
  if (operation > BinaryParameter::DIV) return false;  // Scale and Bias compute four
  Covered covered = CoveredAxes(x.shape, constant);
  if (!covered.fits) return false;
  switch (operation) {
    case BinaryParameter::SUB:
      covered.values = MapFloats(covered.values, [](float v) { return -v; });
      [[fallthrough]];
    case BinaryParameter::ADD:
      *result = AddBias(node, x, covered);
      return true;
    case BinaryParameter::DIV:
      covered.values = MapFloats(covered.values, [](float v) { return 1 / v; });
      [[fallthrough]];
    case BinaryParameter::MUL:
      *result = AddScale(node, x, covered);
      return true;
    default:
      return false;
  }
}

// x op value, or value op x. A blob of one element counts as it stands.
OnnxBlob ByValue(NodeImport& node, BinaryParameter::Operation operation, const OnnxBlob& x,
                 float value, bool value_first) {
  if (!std::isfinite(value)) return BinaryBlob(node, operation, x, value, value_first);
  switch (operation) {
    case BinaryParameter::ADD:
      return PowerBlob(node, x, 1, 1, value);
    case BinaryParameter::SUB:
      return value_first ? PowerBlob(node, x, 1, -1, value) : PowerBlob(node, x, 1, 1, -value);
    case BinaryParameter::MUL:
      if (value != 0) return PowerBlob(node, x, 1, value, 0);
      break;  // Power gives 0, also of NaN and infinity
    case BinaryParameter::DIV:
      if (!value_first && value != 0 && std::isfinite(1 / value)) {
        return PowerBlob(node, x, 1, 1 / value, 0);
      }
      break;
    case BinaryParameter::POW:
      if (!value_first) return PowerBlob(node, x, value, 1, 0);
      break;
    default:
      break;
  }
  return BinaryBlob(node, operation, x, value, value_first);
}

bool IsOneValue(const NodeImport& node, size_t input, size_t other) {
  const OnnxTensor* constant = node.Constant(input);
  return constant != nullptr && constant->count() == 1 &&
         static_cast<int>(constant->dims.size()) <= node.ShapeOf(other).axes();
}

OnnxBlob Eltwise(NodeImport& node, EltwiseParameter::EltwiseOp operation,
                 const std::vector<OnnxBlob>& inputs, const std::vector<float>& factors = {}) {
  return node.Add("Eltwise", inputs, [&](LayerParameter* layer) {
    layer->mutable_eltwise_param()->set_operation(operation);
    for (const float factor : factors) layer->mutable_eltwise_param()->add_coeff(factor);
  });
}

// Scales each channel of each sample, as squeeze-and-excitation does.
bool ScalesChannels(const Shape& x, const Shape& scale) {
  if (x.axes() < 3 || scale.axes() != x.axes()) return false;
  if (scale[0] != x[0] || scale[1] != x[1] || x.count(2) == 1) return false;
  return scale.count(2) == 1;
}

OnnxBlob ScaleChannels(NodeImport& node, const OnnxBlob& x, const OnnxBlob& scale) {
  const OnnxBlob flat = ReshapeBlob(node, scale, {x.shape[0], x.shape[1]});
  return node.Add("Scale", {x, flat},
                  [](LayerParameter* layer) { layer->mutable_scale_param()->set_axis(0); });
}

OnnxBlob ByBlob(NodeImport& node, BinaryParameter::Operation operation, const OnnxBlob& a,
                const OnnxBlob& b) {
  if (operation == BinaryParameter::MUL) {
    if (ScalesChannels(a.shape, b.shape)) return ScaleChannels(node, a, b);
    if (ScalesChannels(b.shape, a.shape)) return ScaleChannels(node, b, a);
  }
  if (a.shape == b.shape && a.name != b.name) {
    if (operation == BinaryParameter::ADD) return Eltwise(node, EltwiseParameter::SUM, {a, b});
    if (operation == BinaryParameter::MUL) return Eltwise(node, EltwiseParameter::PROD, {a, b});
    if (operation == BinaryParameter::SUB) {
      return Eltwise(node, EltwiseParameter::SUM, {a, b}, {1, -1});
    }
  }
  return BinaryBlob(node, operation, a, b);
}

// Before opset 7 the second operand could begin at an axis of the first one.
OnnxBlob BinaryAtAxis(NodeImport& node, BinaryParameter::Operation operation) {
  const OnnxBlob a = node.In(0);
  const Shape& shape = node.ShapeOf(1);
  const int64_t after = a.shape.axes() - node.Int("axis", 0) - shape.axes();
  if (after < 0 || after > a.shape.axes()) node.Refuse("has an axis that does not fit");
  Dims dims(shape.dims().begin(), shape.dims().end());
  dims.insert(dims.end(), static_cast<size_t>(after), 1);
  OnnxBlob result;
  if (node.Constant(1) == nullptr) {
    return BinaryBlob(node, operation, a, ReshapeBlob(node, node.In(1), dims));
  }
  const OnnxTensor b = ReshapeTensor(*node.Constant(1), dims);
  if (ByConstant(node, operation, a, b, &result)) return result;
  return BinaryBlob(node, operation, a, node.AddConstant(b));
}

OnnxBlob Binary(NodeImport& node, BinaryParameter::Operation operation) {
  for (const size_t input : {0, 1}) node.RequireFloats(input);
  if (node.opset() < 7 && node.HasAttribute("axis")) return BinaryAtAxis(node, operation);
  const bool commutes = operation == BinaryParameter::ADD || operation == BinaryParameter::MUL;
  OnnxBlob result;
  if (IsOneValue(node, 1, 0)) {
    return ByValue(node, operation, node.In(0), node.Floats(1, "b")[0], false);
  }
  if (IsOneValue(node, 0, 1)) {
    return WithType(ByValue(node, operation, node.In(1), node.Floats(0, "a")[0], true),
                    node.TypeOf(0));
  }
  if (node.Constant(1) != nullptr && node.Constant(0) == nullptr &&
      ByConstant(node, operation, node.In(0), *node.Constant(1), &result)) {
    return result;
  }
  if (commutes && node.Constant(0) != nullptr && node.Constant(1) == nullptr &&
      ByConstant(node, operation, node.In(1), *node.Constant(0), &result)) {
    return result;
  }
  const OnnxBlob a = node.In(0);
  return ByBlob(node, operation, a, node.In(1));
}

template <BinaryParameter::Operation kOperation>
void ConvertBinary(NodeImport& node) {
  node.Output(0, Binary(node, kOperation));
}

// The last bits of the result, if the type has few. Products of 16 bits may be too large for that.
template <BinaryParameter::Operation kOperation>
void ConvertArithmetic(NodeImport& node) {
  OnnxBlob y = Binary(node, kOperation);
  const int bits = BitsOf(y.type);
  if (bits == 16 && kOperation == BinaryParameter::MUL) y = node.Checked(y);
  node.Output(0, bits <= 16 ? WrappedBlob(node, y, y.type) : y);
}

template <BinaryParameter::Operation kOperation>
void ConvertComparison(NodeImport& node) {
  node.Output(0, WithType(Binary(node, kOperation), TensorProto::BOOL));
}

void ConvertDiv(NodeImport& node) {
  const bool whole = !IsFloatType(node.TypeOf(0));
  node.Output(0, Binary(node, whole ? BinaryParameter::INTEGER_DIV : BinaryParameter::DIV));
}

// The exponents of whole numbers may be fractions or negative; the result is cut towards 0.
void ConvertPow(NodeImport& node) {
  const OnnxBlob y = WithType(Binary(node, BinaryParameter::POW), node.TypeOf(0));
  const OnnxTensor* exponent = node.Constant(1);
  const bool whole = exponent != nullptr && !exponent->IsFloat() &&
                     std::ranges::all_of(*exponent->ints, [](int64_t e) { return e >= 0; });
  node.Output(0, whole || IsFloatType(y.type) ? y : WholeBlob(node, y));
}

void ConvertMod(NodeImport& node) {
  const bool fmod = node.Int("fmod", 0) != 0;
  node.Output(0, Binary(node, fmod ? BinaryParameter::FMOD : BinaryParameter::MOD));
}

// Negative counts, and those from the number of bits on, shift all bits out.
void ConvertShift(NodeImport& node) {
  const std::string direction = node.Choice("direction", {"", "LEFT", "RIGHT"});
  if (direction.empty()) node.Refuse("has no attribute direction");
  const bool left = direction == "LEFT";
  const OnnxBlob x = node.In(0);
  OnnxBlob count = node.In(1);
  if (IsSignedType(x.type)) count = BinaryBlob(node, BinaryParameter::MOD, count, 0x1p32F);
  count = BinaryBlob(node, BinaryParameter::MIN, count, static_cast<float>(BitsOf(x.type)));
  const OnnxBlob y =
      BinaryBlob(node, left ? BinaryParameter::SHIFT_LEFT : BinaryParameter::SHIFT_RIGHT, x, count);
  node.Output(0, left ? WrappedBlob(node, y, x.type) : y);
}

// Sum, Max, Min and Mean of any number of inputs.
OnnxBlob Chain(NodeImport& node, BinaryParameter::Operation operation) {
  if (node.inputs() == 0) node.Refuse("has no inputs");
  OnnxBlob result = node.In(0);
  for (size_t i = 1; i < node.inputs(); ++i) {
    result = ByBlob(node, operation, result, node.In(i));
  }
  return result;
}

template <BinaryParameter::Operation kOperation>
void ConvertChain(NodeImport& node) {
  node.Output(0, node.inputs() == 2 ? Binary(node, kOperation) : Chain(node, kOperation));
}

void ConvertMean(NodeImport& node) {
  const OnnxBlob sum = Chain(node, BinaryParameter::ADD);
  const auto count = static_cast<float>(node.inputs());
  node.Output(0, node.inputs() == 1 ? sum : PowerBlob(node, sum, 1, 1 / count, 0));
}

void ConvertWhere(NodeImport& node) {
  const OnnxBlob condition = node.In(0);
  const OnnxBlob x = node.In(1);
  const OnnxBlob y = node.In(2);
  node.Output(0, WithType(node.Add("Where", {condition, x, y}), x.type));
}

// Bounds of Clip, from attributes or inputs; nothing: not constant.
std::optional<float> ClipBound(const NodeImport& node, const char* name, size_t input,
                               float fallback) {
  if (node.HasAttribute(name)) return node.Float(name, fallback);
  if (!node.Has(input)) return fallback;
  const OnnxTensor* constant = node.Constant(input);
  if (constant == nullptr || constant->count() != 1) return std::nullopt;
  return node.Floats(input, name)[0];
}

void ConvertClip(NodeImport& node) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  OnnxBlob x = node.In(0);
  const auto low = ClipBound(node, "min", 1, -kInfinity);
  const auto high = ClipBound(node, "max", 2, kInfinity);
  if (low && high) {
    if (*low == 0 && *high == 6) return node.Output(0, node.Add("ReLU6", {x}));
    return node.Output(0, node.Add("Clip", {x}, [&](LayerParameter* layer) {
      layer->mutable_clip_param()->set_min(std::min(*low, *high));  // the upper bound counts
      layer->mutable_clip_param()->set_max(*high);
    }));
  }
  if (node.Has(1)) x = BinaryBlob(node, BinaryParameter::MAX, x, node.In(1));
  if (node.Has(2)) x = BinaryBlob(node, BinaryParameter::MIN, x, node.In(2));
  node.Output(0, x);
}

void ConvertPRelu(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  const OnnxTensor* slope = node.Constant(1);
  node.RequireFloats(1);
  if (slope != nullptr && slope->count() == 1 && x.shape.axes() >= 2) {
    return node.Output(0, node.Add("PReLU", {x},
                                   [](LayerParameter* layer) {
                                     layer->mutable_prelu_param()->set_channel_shared(true);
                                   },
                                   {ReshapeTensor(ToFloats(*slope), {})}));
  }
  if (slope != nullptr && x.shape.axes() >= 2) {
    Covered covered = CoveredAxes(x.shape, *slope);
    if (node.opset() < 7 && slope->dims == Dims{x.shape[1]}) covered = {true, 1, ToFloats(*slope)};
    if (covered.fits && covered.axis == 1 && covered.values.dims.size() == 1) {
      return node.Output(0, node.Add("PReLU", {x}, {}, {covered.values}));
    }
  }
  node.Output(0, BinaryBlob(node, BinaryParameter::PRELU, x, node.In(1)));
}

}  // namespace

void AddMathConverters(ConverterTable* table) {
  using P = BinaryParameter;
  (*table)["Add"] = ConvertArithmetic<P::ADD>;
  (*table)["Sub"] = ConvertArithmetic<P::SUB>;
  (*table)["Mul"] = ConvertArithmetic<P::MUL>;
  (*table)["Div"] = ConvertDiv;
  (*table)["Pow"] = ConvertPow;
  (*table)["Mod"] = ConvertMod;
  (*table)["Equal"] = ConvertComparison<P::EQUAL>;
  (*table)["Less"] = ConvertComparison<P::LESS>;
  (*table)["LessOrEqual"] = ConvertComparison<P::LESS_OR_EQUAL>;
  (*table)["Greater"] = ConvertComparison<P::GREATER>;
  (*table)["GreaterOrEqual"] = ConvertComparison<P::GREATER_OR_EQUAL>;
  (*table)["And"] = ConvertComparison<P::AND>;
  (*table)["Or"] = ConvertComparison<P::OR>;
  (*table)["Xor"] = ConvertComparison<P::XOR>;
  (*table)["BitwiseAnd"] = ConvertBinary<P::BITWISE_AND>;
  (*table)["BitwiseOr"] = ConvertBinary<P::BITWISE_OR>;
  (*table)["BitwiseXor"] = ConvertBinary<P::BITWISE_XOR>;
  (*table)["BitShift"] = ConvertShift;
  (*table)["Sum"] = ConvertChain<P::ADD>;
  (*table)["Max"] = ConvertChain<P::MAX>;
  (*table)["Min"] = ConvertChain<P::MIN>;
  (*table)["Mean"] = ConvertMean;
  (*table)["Where"] = ConvertWhere;
  (*table)["Clip"] = ConvertClip;
  (*table)["PRelu"] = ConvertPRelu;
}

}  // namespace crema
