#include "layers/activation/fused_activation.h"

#include <string>

#include "layers/activation/formulas.h"

namespace crema {
namespace {

using Kind = FusedActivation::Kind;

FusedActivation HardSwishOf(const Layer& layer) {
  const HardSwishFormula formula(layer);
  // 1/6 as the schema and ONNX files round it.
  const bool standard = std::abs(formula.alpha - 1.0F / 6) < 1e-7F && formula.beta == 0.5F;
  return {standard ? Kind::kHardSwish : Kind::kNone};
}

FusedActivation EluOf(const Layer& layer) {
  const EluFormula formula(layer);
  if (formula.lambda != 1) return {};
  return {Kind::kElu, formula.alpha};
}

FusedActivation GeluOf(const Layer& layer) {
  const bool tanh = layer.param().gelu_param().approximation() == GELUParameter::TANH;
  return {tanh ? Kind::kGeluTanh : Kind::kGelu};
}

}  // namespace

FusedActivation ActivationOf(const Layer& layer) {
  const std::string& type = layer.param().type();
  if (type == "HardSwish" || type == "HSwish") return HardSwishOf(layer);
  if (type == "GELU") return GeluOf(layer);
  if (type == "TanH") return {Kind::kTanH};
  if (type == "ELU") return EluOf(layer);
  if (type == "Mish") return {Kind::kMish};
  if (type == "ReLU6" && Relu6Formula(layer).slope == 0) return {Kind::kClip, 0, 6};
  if (type == "Clip") {
    const ClipFormula formula(layer);
    return {Kind::kClip, formula.low, formula.high};
  }
  return {};
}

}  // namespace crema
