// Activations: functions of single elements, and Softmax.
#include <cmath>
#include <limits>

#include "crema.pb.h"
#include "onnx/export_layer.h"

namespace crema {
namespace {

// An emitter of one node without attributes.
Emitter OneNode(const char* type) {
  return [type](LayerExport& e) { e.out = {e.Add(type, {e.in[0]})}; };
}

void Clip(LayerExport& e) {
  const auto bound = [&](float value) {
    return std::isinf(value) ? std::string() : e.graph.Scalar(value);
  };
  e.out = {e.Add("Clip",
                 {e.in[0], bound(e.param.clip_param().min()), bound(e.param.clip_param().max())})};
}

void Dropout(LayerExport& e) {
  const DropoutParameter& p = e.param.dropout_param();
  e.out = {e.Affine(e.in[0], p.scale_train() ? 1 : 1 - double{p.dropout_ratio()}, 0)};
}

void Elu(LayerExport& e) {
  const ELUParameter& p = e.param.elu_param();
  e.out = {e.Affine(e.Add("Elu", {e.in[0]}, {{"alpha", p.alpha()}}), p.lambda(), 0)};
}

void Exp(LayerExport& e) {
  const ExpParameter& p = e.param.exp_param();
  const double log = p.base() == -1 ? 1 : std::log(double{p.base()});
  e.out = {e.Add("Exp", {e.Affine(e.in[0], log * p.scale(), log * p.shift())})};
}

void Log(LayerExport& e) {
  const LogParameter& p = e.param.log_param();
  const double log = p.base() == -1 ? 1 : std::log(double{p.base()});
  e.out = {e.Affine(e.Add("Log", {e.Affine(e.in[0], p.scale(), p.shift())}), 1 / log, 0)};
}

void Power(LayerExport& e) {
  const PowerParameter& p = e.param.power_param();
  if (p.power() == 0) {  // also where the base is 0 or not finite
    e.out = {e.Add("Pow", {e.Affine(e.in[0], p.scale(), p.shift()), e.graph.Scalar(0)})};
    return;
  }
  const std::string x = e.Affine(e.in[0], p.scale(), p.shift());
  if (p.power() == 1) {
    e.out = {x};
  } else if (p.power() == 2) {
    e.out = {e.Add("Mul", {x, x})};
  } else if (p.power() == 0.5F) {
    e.out = {e.Add("Sqrt", {x})};
  } else {
    e.out = {e.Add("Pow", {x, e.graph.Scalar(p.power())})};
  }
}

void Gelu(LayerExport& e) {
  const bool tanh = e.param.gelu_param().approximation() == GELUParameter::TANH;
  const std::string& x = e.in[0];
  if (e.graph.opset() >= 20) {
    e.out = {e.Add("Gelu", {x}, {{"approximate", tanh ? "tanh" : "none"}})};
    return;
  }
  std::string inner;
  if (tanh) {
    const std::string cube = e.Add("Mul", {e.Add("Mul", {x, x}), x});
    const std::string sum = e.Add("Add", {x, e.Affine(cube, 0.044715, 0)});
    inner = e.Add("Tanh", {e.Affine(sum, std::sqrt(2 / M_PI), 0)});
  } else {
    inner = e.Add("Erf", {e.Affine(x, 1 / std::sqrt(2.0), 0)});
  }
  e.out = {e.Affine(e.Add("Mul", {x, e.Affine(inner, 1, 1)}), 0.5, 0)};
}

std::string HardGate(LayerExport& e) {
  const HardSigmoidParameter& p = e.param.hard_sigmoid_param();
  return e.Add("HardSigmoid", {e.in[0]}, {{"alpha", p.alpha()}, {"beta", p.beta()}});
}

void HardSigmoid(LayerExport& e) { e.out = {HardGate(e)}; }

void HardSwish(LayerExport& e) {
  const HardSigmoidParameter& p = e.param.hard_sigmoid_param();
  const bool standard = std::abs(p.alpha() - 1.0F / 6) < 1e-7F && p.beta() == 0.5F;
  if (standard && e.graph.opset() >= 14) {
    e.out = {e.Add("HardSwish", {e.in[0]})};
  } else {
    e.out = {e.Add("Mul", {e.in[0], HardGate(e)})};
  }
}

void Mish(LayerExport& e) {
  const std::string& x = e.in[0];
  e.out = {e.graph.opset() >= 18 ? e.Add("Mish", {x})
                                 : e.Add("Mul", {x, e.Add("Tanh", {e.Add("Softplus", {x})})})};
}

void PRelu(LayerExport& e) {
  std::vector<int64_t> dims(static_cast<size_t>(e.shape().axes() - 1), 1);
  dims[0] = e.parameters[0].count();
  e.out = {e.Add("PRelu", {e.in[0], e.Parameter(0, dims)})};
}

void Relu(LayerExport& e) {
  e.out = {e.Activate(e.in[0], true, e.param.relu_param().negative_slope())};
}

void Relu6(LayerExport& e) {
  const double slope = e.param.relu6_param().negative_slope();
  std::string y = e.Add("Clip", {e.in[0], e.graph.Scalar(0), e.graph.Scalar(6)});
  if (slope != 0) {
    const std::string low = e.Add("Clip", {e.in[0], "", e.graph.Scalar(0)});
    y = e.Add("Add", {y, e.Affine(low, slope, 0)});
  }
  e.out = {y};
}

void Swish(LayerExport& e) {
  const double beta = e.param.has_swish_param() ? e.param.swish_param().beta() : 1;
  e.out = {e.Add("Mul", {e.in[0], e.Add("Sigmoid", {e.Affine(e.in[0], beta, 0)})})};
}

void Threshold(LayerExport& e) {
  const double threshold = e.param.threshold_param().threshold();
  e.out = {e.ToFloat(e.Add("Greater", {e.in[0], e.graph.Scalar(threshold)}))};
}

void Softmax(LayerExport& e) {
  const int axis = e.shape().CanonicalAxis(e.param.softmax_param().axis());
  e.out = {e.Add("Softmax", {e.in[0]}, {{"axis", axis}})};
}

void LogSoftmax(LayerExport& e) {
  const int axis = e.shape().CanonicalAxis(e.param.softmax_param().axis());
  e.out = {e.Add("LogSoftmax", {e.in[0]}, {{"axis", axis}})};
}

}  // namespace

void AddActivationEmitters(EmitterTable* table) {
  table->insert({
      {"AbsVal", OneNode("Abs")},
      {"BNLL", OneNode("Softplus")},
      {"Clip", Clip},
      {"Dropout", Dropout},
      {"ELU", Elu},
      {"Exp", Exp},
      {"GELU", Gelu},
      {"HardSigmoid", HardSigmoid},
      {"HardSwish", HardSwish},
      {"Log", Log},
      {"LogSoftmax", LogSoftmax},
      {"Mish", Mish},
      {"PReLU", PRelu},
      {"Power", Power},
      {"ReLU", Relu},
      {"ReLU6", Relu6},
      {"SiLU", Swish},
      {"Sigmoid", OneNode("Sigmoid")},
      {"Softmax", Softmax},
      {"Swish", Swish},
      {"TanH", OneNode("Tanh")},
      {"Threshold", Threshold},
  });
}

}  // namespace crema
