// Binary, Unary and Where: functions of single elements, broadcast as in NumPy.
#include <string>

#include "crema.pb.h"
#include "layers/activation/unary_formula.h"
#include "onnx/export_layer.h"

namespace crema {
namespace {

std::string Truth(LayerExport& e, const std::string& x) {
  return e.Add("Not", {e.Add("Equal", {x, e.graph.Scalar(0)})});
}

std::string TowardsZero(LayerExport& e, const std::string& x) {
  return e.Add("Mul", {e.Add("Sign", {x}), e.Add("Floor", {e.Add("Abs", {x})})});
}

// The remainder with the sign of b, from that with the sign of a.
std::string FlooredRemainder(LayerExport& e, const std::string& a, const std::string& b) {
  const std::string zero = e.graph.Scalar(0);
  const std::string rest = e.Add("Mod", {a, b}, {{"fmod", 1}});
  const std::string other = e.Add("Xor", {e.Add("Less", {rest, zero}), e.Add("Less", {b, zero})});
  const std::string moves = e.Add("And", {Truth(e, rest), other});
  return e.Add("Where", {moves, e.Add("Add", {rest, b}), rest});
}

std::string BitwiseOf(LayerExport& e, const char* type, const std::string& a,
                      const std::string& b) {
  if (e.graph.opset() < 18) e.Refuse("operations on bits need opset 18");
  return e.ToFloat(e.Add(type, {e.ToInt(a), e.ToInt(b)}));
}

std::string Shifted(LayerExport& e, const std::string& a, const std::string& power) {
  return e.Add("Mul", {a, e.Add("Pow", {e.graph.Scalar(2), power})});
}

// Operations whose operators have the same meaning; null: others.
const char* PlainBinary(BinaryParameter::Operation operation) {
  switch (operation) {
    case BinaryParameter::ADD:
      return "Add";
    case BinaryParameter::SUB:
      return "Sub";
    case BinaryParameter::MUL:
      return "Mul";
    case BinaryParameter::DIV:
      return "Div";
    case BinaryParameter::POW:
      return "Pow";
    case BinaryParameter::MAX:
      return "Max";
    case BinaryParameter::MIN:
      return "Min";
    default:
      return nullptr;
  }
}

// The same of those that give truth values.
const char* Comparison(BinaryParameter::Operation operation) {
  switch (operation) {
    case BinaryParameter::EQUAL:
      return "Equal";
    case BinaryParameter::LESS:
      return "Less";
    case BinaryParameter::LESS_OR_EQUAL:
      return "LessOrEqual";
    case BinaryParameter::GREATER:
      return "Greater";
    case BinaryParameter::GREATER_OR_EQUAL:
      return "GreaterOrEqual";
    default:
      return nullptr;
  }
}

std::string OtherBinary(LayerExport& e, const std::string& a, const std::string& b) {
  switch (e.param.binary_param().operation()) {
    case BinaryParameter::MOD:
      return FlooredRemainder(e, a, b);
    case BinaryParameter::FMOD:
      return e.Add("Mod", {a, b}, {{"fmod", 1}});
    case BinaryParameter::INTEGER_DIV:
      return TowardsZero(e, e.Add("Div", {a, b}));
    case BinaryParameter::PRELU:
      return e.Add("Where",
                   {e.Add("GreaterOrEqual", {a, e.graph.Scalar(0)}), a, e.Add("Mul", {a, b})});
    case BinaryParameter::AND:
      return e.ToFloat(e.Add("And", {Truth(e, a), Truth(e, b)}));
    case BinaryParameter::OR:
      return e.ToFloat(e.Add("Or", {Truth(e, a), Truth(e, b)}));
    case BinaryParameter::XOR:
      return e.ToFloat(e.Add("Xor", {Truth(e, a), Truth(e, b)}));
    case BinaryParameter::BITWISE_AND:
      return BitwiseOf(e, "BitwiseAnd", a, b);
    case BinaryParameter::BITWISE_OR:
      return BitwiseOf(e, "BitwiseOr", a, b);
    case BinaryParameter::BITWISE_XOR:
      return BitwiseOf(e, "BitwiseXor", a, b);
    case BinaryParameter::SHIFT_LEFT:
      return Shifted(e, a, TowardsZero(e, b));
    case BinaryParameter::SHIFT_RIGHT:
      return e.Add("Floor", {Shifted(e, a, e.Add("Neg", {TowardsZero(e, b)}))});
    default:
      e.Refuse("its operation is not known");
  }
}

void Binary(LayerExport& e) {
  const BinaryParameter& p = e.param.binary_param();
  std::string a = e.in[0];
  std::string b = e.in.size() > 1 ? e.in[1] : e.graph.Scalar(p.value());
  if (p.value_first()) a.swap(b);
  if (const char* plain = PlainBinary(p.operation())) {
    e.out = {e.Add(plain, {a, b})};
  } else if (const char* comparison = Comparison(p.operation())) {
    e.out = {e.ToFloat(e.Add(comparison, {a, b}))};
  } else {
    e.out = {OtherBinary(e, a, b)};
  }
}

// Operations from NEGATIVE to SOFTSIGN.
constexpr const char* kPlainUnary[] = {"Neg",  "Reciprocal", "Sqrt",    "Floor", "Ceil",  "Round",
                                       "Sign", "Sin",        "Cos",     "Tan",   "Asin",  "Acos",
                                       "Atan", "Sinh",       "Cosh",    "Asinh", "Acosh", "Atanh",
                                       "Erf",  "Softplus",   "Softsign"};

void Unary(LayerExport& e) {
  const UnaryParameter::Operation operation = e.param.unary_param().operation();
  const std::string& x = e.in[0];
  if (operation <= UnaryParameter::SOFTSIGN) {
    e.out = {e.Add(kPlainUnary[operation], {x})};
    return;
  }
  const UnaryFormula formula(e.layer);
  const auto is_infinite = [&](int negative, int positive) {
    return e.ToFloat(
        e.Add("IsInf", {x}, {{"detect_negative", negative}, {"detect_positive", positive}}));
  };
  switch (operation) {
    case UnaryParameter::SELU:
      e.out = {e.Add("Selu", {x}, {{"alpha", formula.alpha}, {"gamma", formula.beta}})};
      break;
    case UnaryParameter::CELU:
      e.out = {e.Add("Celu", {x}, {{"alpha", formula.alpha}})};
      break;
    case UnaryParameter::THRESHOLDED_RELU:
      e.out = {e.Add("ThresholdedRelu", {x}, {{"alpha", formula.alpha}})};
      break;
    case UnaryParameter::SHRINK:
      e.out = {e.Add("Shrink", {x}, {{"lambd", formula.alpha}, {"bias", formula.beta}})};
      break;
    case UnaryParameter::NOT:
      e.out = {e.ToFloat(e.Add("Equal", {x, e.graph.Scalar(0)}))};
      break;
    case UnaryParameter::IS_NAN:
      e.out = {e.ToFloat(e.Add("IsNaN", {x}))};
      break;
    case UnaryParameter::IS_INF:
      e.out = {is_infinite(1, 1)};
      break;
    case UnaryParameter::IS_POSITIVE_INF:
      e.out = {is_infinite(0, 1)};
      break;
    case UnaryParameter::IS_NEGATIVE_INF:
      e.out = {is_infinite(1, 0)};
      break;
    default:
      e.Refuse("its operation is not known");
  }
}

void Choose(LayerExport& e) { e.out = {e.Add("Where", {Truth(e, e.in[0]), e.in[1], e.in[2]})}; }

}  // namespace

void AddElementEmitters(EmitterTable* table) {
  table->insert({{"Binary", Binary}, {"Unary", Unary}, {"Where", Choose}});
}

}  // namespace crema
