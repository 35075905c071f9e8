// Elementwise operators of one input, and softmax.
#include <algorithm>
#include <cmath>

#include "core/strings.h"
#include "onnx/import_blocks.h"
#include "onnx/import_convert.h"
#include "onnx/import_fold.h"

namespace crema {
namespace {

using onnx::TensorProto;

template <UnaryParameter::Operation kOperation>
void ConvertUnary(NodeImport& node) {
  node.Output(0, UnaryBlob(node, kOperation, node.In(0)));
}

template <UnaryParameter::Operation kOperation>
void ConvertTest(NodeImport& node) {
  node.Output(0, WithType(UnaryBlob(node, kOperation, node.In(0)), TensorProto::BOOL));
}

// Layers that take no parameters.
void ConvertAbs(NodeImport& node) { node.Output(0, node.Add("AbsVal", {node.In(0)})); }
void ConvertExp(NodeImport& node) { node.Output(0, node.Add("Exp", {node.In(0)})); }
void ConvertLog(NodeImport& node) { node.Output(0, node.Add("Log", {node.In(0)})); }
void ConvertRelu(NodeImport& node) { node.Output(0, node.Add("ReLU", {node.In(0)})); }
void ConvertSigmoid(NodeImport& node) { node.Output(0, node.Add("Sigmoid", {node.In(0)})); }
void ConvertTanh(NodeImport& node) { node.Output(0, node.Add("TanH", {node.In(0)})); }
void ConvertMish(NodeImport& node) { node.Output(0, node.Add("Mish", {node.In(0)})); }
void ConvertSoftplus(NodeImport& node) { node.Output(0, node.Add("BNLL", {node.In(0)})); }
void ConvertHardSwish(NodeImport& node) { node.Output(0, node.Add("HardSwish", {node.In(0)})); }
void ConvertNeg(NodeImport& node) { node.Output(0, PowerBlob(node, node.In(0), 1, -1, 0)); }
void ConvertIdentity(NodeImport& node) { node.Output(0, node.In(0)); }

void ConvertIsInf(NodeImport& node) {
  const bool negative = node.Int("detect_negative", 1) != 0;
  const bool positive = node.Int("detect_positive", 1) != 0;
  if (!negative && !positive) {
    const OnnxBlob zero = PowerBlob(node, node.In(0), 1, 0, 0);
    return node.Output(0,
                       WithType(UnaryBlob(node, UnaryParameter::IS_NAN, zero), TensorProto::BOOL));
  }
  const auto operation = negative && positive ? UnaryParameter::IS_INF
                         : negative           ? UnaryParameter::IS_NEGATIVE_INF
                                              : UnaryParameter::IS_POSITIVE_INF;
  node.Output(0, WithType(UnaryBlob(node, operation, node.In(0)), TensorProto::BOOL));
}

void ConvertLeakyRelu(NodeImport& node) {
  node.Output(0, node.Add("ReLU", {node.In(0)}, [&](LayerParameter* layer) {
    layer->mutable_relu_param()->set_negative_slope(node.Float("alpha", 0.01F));
  }));
}

void ConvertElu(NodeImport& node) {
  node.Output(0, node.Add("ELU", {node.In(0)}, [&](LayerParameter* layer) {
    layer->mutable_elu_param()->set_alpha(node.Float("alpha", 1));
  }));
}

// A Unary layer with alpha and beta.
void Parametric(NodeImport& node, UnaryParameter::Operation operation, float alpha,
                std::optional<float> beta) {
  node.Output(0, node.Add("Unary", {node.In(0)}, [&](LayerParameter* layer) {
    UnaryParameter* param = layer->mutable_unary_param();
    param->set_operation(operation);
    param->set_alpha(alpha);
    if (beta) param->set_beta(*beta);
  }));
}

void ConvertSelu(NodeImport& node) {
  Parametric(node, UnaryParameter::SELU, node.Float("alpha", 1.67326319217681884765625F),
             node.Float("gamma", 1.05070102214813232421875F));
}
void ConvertCelu(NodeImport& node) {
  Parametric(node, UnaryParameter::CELU, node.Float("alpha", 1), std::nullopt);
}
void ConvertThresholdedRelu(NodeImport& node) {
  Parametric(node, UnaryParameter::THRESHOLDED_RELU, node.Float("alpha", 1), std::nullopt);
}
void ConvertShrink(NodeImport& node) {
  Parametric(node, UnaryParameter::SHRINK, node.Float("lambd", 0.5F), node.Float("bias", 0));
}

void ConvertHardSigmoid(NodeImport& node) {
  node.Output(0, node.Add("HardSigmoid", {node.In(0)}, [&](LayerParameter* layer) {
    layer->mutable_hard_sigmoid_param()->set_alpha(node.Float("alpha", 0.2F));
    layer->mutable_hard_sigmoid_param()->set_beta(node.Float("beta", 0.5F));
  }));
}

void ConvertSwish(NodeImport& node) {
  const float alpha = node.Float("alpha", 1);
  if (alpha == 1) return node.Output(0, node.Add("SiLU", {node.In(0)}));
  node.Output(0, node.Add("Swish", {node.In(0)}, [&](LayerParameter* layer) {
    layer->mutable_swish_param()->set_beta(alpha);
  }));
}

void ConvertSwiGLU(NodeImport& node) {
  const OnnxBlob gate = node.Add("Swish", {node.In(0)}, [&](LayerParameter* layer) {
    layer->mutable_swish_param()->set_beta(node.Float("alpha", 1));
  });
  node.Output(0, BinaryBlob(node, BinaryParameter::MUL, gate, node.In(1)));
}

void ConvertGelu(NodeImport& node) {
  node.Output(0, node.Add("GELU", {node.In(0)}, [&](LayerParameter* layer) {
    if (node.Choice("approximate", {"none", "tanh"}) == "tanh") {
      layer->mutable_gelu_param()->set_approximation(GELUParameter::TANH);
    }
  }));
}

void ConvertBitwiseNot(NodeImport& node) {
  const int type = node.TypeOf(0);
  float most = -1;
  if (type == TensorProto::UINT8) most = 255;
  if (type == TensorProto::UINT16) most = 65535;
  if (type == TensorProto::UINT32 || type == TensorProto::UINT64) {
    node.Refuse(
        StrCat("is of ", OnnxTypeName(type), ", and floats do not hold its largest numbers"));
  }
  node.Output(0, PowerBlob(node, node.In(0), 1, -1, most));
}

// Sets the axis of a softmax; older opsets take all axes from it on together.
void Softmax(NodeImport& node, const char* type) {
  OnnxBlob x = node.In(0);
  const std::vector<int64_t> dims = DimsOf(x);
  const bool together = node.opset() < 13;
  const auto axis = static_cast<size_t>(
      CanonicalAxes(node, {node.Int("axis", together ? 1 : -1)}, dims.size())[0]);
  const bool flatten = together && std::any_of(dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1,
                                               dims.end(), [](int64_t dim) { return dim != 1; });
  if (flatten) {
    std::vector<int64_t> flat(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(axis));
    flat.push_back(x.shape.count(static_cast<int>(axis)));
    x = ReshapeBlob(node, x, flat);
  }
  x = node.Add(type, {x}, [&](LayerParameter* layer) {
    if (axis != 1) layer->mutable_softmax_param()->set_axis(static_cast<int>(axis));
  });
  node.Output(0, ReshapeBlob(node, x, dims));
}

void ConvertSoftmax(NodeImport& node) { Softmax(node, "Softmax"); }
void ConvertLogSoftmax(NodeImport& node) { Softmax(node, "LogSoftmax"); }

// Casts to whole numbers cut towards 0, and those to float16 round. Those to other floats change
// nothing, since all blobs are single-precision floats.
void Cast(NodeImport& node, int to) {
  OnnxBlob x = node.In(0);
  if (IsFloatType(to) && to != TensorProto::DOUBLE) x = node.Unchecked(x);
  const int from = x.type;
  const bool narrow = IsFloatType(to) && to > TensorProto::BFLOAT16;  // of 8 bits and less
  if (!IsNumberType(to) || !IsNumberType(from) || (narrow && from != to)) {
    node.Refuse(StrCat("casts from ", OnnxTypeName(from), " to ", OnnxTypeName(to)));
  }
  const auto cast_to = [&](Type type) {
    return node.Add("Cast", {x},
                    [&](LayerParameter* layer) { layer->mutable_cast_param()->set_to(type); });
  };
  const bool exact = from == to || from == TensorProto::BOOL;
  if (!exact && to == TensorProto::FLOAT16) {
    return node.Output(0, WithType(cast_to(FLOAT16), to));
  }
  if (exact || IsFloatType(to)) return node.Output(0, WithType(x, to));
  if (to != TensorProto::BOOL && !IsFloatType(from)) {
    const bool holds_signs =
        IsSignedType(to) == IsSignedType(from) || (IsSignedType(to) && BitsOf(to) > BitsOf(from));
    const bool wraps = BitsOf(to) <= 16 && (BitsOf(to) < BitsOf(from) || !holds_signs);
    return node.Output(0, WithType(wraps ? WrappedBlob(node, x, to) : x, to));
  }
  if (to == TensorProto::BOOL) return node.Output(0, WithType(cast_to(BOOL), to));
  // Cast keeps whole numbers within int32.
  const bool wide = BitsOf(to) == 64 || to == TensorProto::UINT32;
  OnnxBlob y = wide ? BinaryBlob(node, BinaryParameter::INTEGER_DIV, x, 1) : cast_to(INT);
  if (BitsOf(to) <= 4) y = WrappedBlob(node, y, to);
  node.Output(0, WithType(y, to));
}

void ConvertCast(NodeImport& node) { Cast(node, static_cast<int>(node.RequiredInt("to"))); }

void ConvertCastLike(NodeImport& node) { Cast(node, node.TypeOf(1)); }

void ConvertDropout(NodeImport& node) {
  const OnnxTensor* training = node.Constant(2);
  if (node.Has(2) && (training == nullptr || training->IsFloat() || (*training->ints)[0] != 0)) {
    node.Refuse("is in training mode");
  }
  const OnnxBlob x = node.In(0);
  node.Output(0, x);
  if (!node.Wants(1)) return;
  node.Output(1, WithType(BinaryBlob(node, BinaryParameter::EQUAL, x, x), TensorProto::BOOL));
}

// Functions of the Unary layer.
void AddUnaryConverters(ConverterTable* table) {
  using P = UnaryParameter;
  (*table)["IsNaN"] = ConvertTest<P::IS_NAN>;
  (*table)["Not"] = ConvertTest<P::NOT>;
  (*table)["Reciprocal"] = ConvertUnary<P::RECIPROCAL>;
  (*table)["Sqrt"] = ConvertUnary<P::SQRT>;
  (*table)["Floor"] = ConvertUnary<P::FLOOR>;
  (*table)["Ceil"] = ConvertUnary<P::CEIL>;
  (*table)["Round"] = ConvertUnary<P::ROUND>;
  (*table)["Sign"] = ConvertUnary<P::SIGN>;
  (*table)["Sin"] = ConvertUnary<P::SIN>;
  (*table)["Cos"] = ConvertUnary<P::COS>;
  (*table)["Tan"] = ConvertUnary<P::TAN>;
  (*table)["Asin"] = ConvertUnary<P::ASIN>;
  (*table)["Acos"] = ConvertUnary<P::ACOS>;
  (*table)["Atan"] = ConvertUnary<P::ATAN>;
  (*table)["Sinh"] = ConvertUnary<P::SINH>;
  (*table)["Cosh"] = ConvertUnary<P::COSH>;
  (*table)["Asinh"] = ConvertUnary<P::ASINH>;
  (*table)["Acosh"] = ConvertUnary<P::ACOSH>;
  (*table)["Atanh"] = ConvertUnary<P::ATANH>;
  (*table)["Erf"] = ConvertUnary<P::ERF>;
  (*table)["Softsign"] = ConvertUnary<P::SOFTSIGN>;
}

}  // namespace

void AddActivationConverters(ConverterTable* table) {
  AddUnaryConverters(table);
  (*table)["Abs"] = ConvertAbs;
  (*table)["Exp"] = ConvertExp;
  (*table)["Log"] = ConvertLog;
  (*table)["Neg"] = ConvertNeg;
  (*table)["Identity"] = ConvertIdentity;
  (*table)["Relu"] = ConvertRelu;
  (*table)["Sigmoid"] = ConvertSigmoid;
  (*table)["Tanh"] = ConvertTanh;
  (*table)["Mish"] = ConvertMish;
  (*table)["Softplus"] = ConvertSoftplus;
  (*table)["HardSwish"] = ConvertHardSwish;
  (*table)["LeakyRelu"] = ConvertLeakyRelu;
  (*table)["Elu"] = ConvertElu;
  (*table)["Selu"] = ConvertSelu;
  (*table)["Celu"] = ConvertCelu;
  (*table)["ThresholdedRelu"] = ConvertThresholdedRelu;
  (*table)["Shrink"] = ConvertShrink;
  (*table)["HardSigmoid"] = ConvertHardSigmoid;
  (*table)["Swish"] = ConvertSwish;
  (*table)["SwiGLU"] = ConvertSwiGLU;
  (*table)["Gelu"] = ConvertGelu;
  (*table)["BitwiseNot"] = ConvertBitwiseNot;
  (*table)["Softmax"] = ConvertSoftmax;
  (*table)["LogSoftmax"] = ConvertLogSoftmax;
  (*table)["Cast"] = ConvertCast;
  (*table)["CastLike"] = ConvertCastLike;
  (*table)["Dropout"] = ConvertDropout;
  (*table)["IsInf"] = ConvertIsInf;
}

}  // namespace crema
