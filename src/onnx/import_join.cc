#include "onnx/import_join.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "onnx/import_fold.h"

namespace crema {
namespace {

using onnx::NodeProto;

// Opset of the operators that groups become.
constexpr int64_t kJoinedOpset = 24;

class Joiner {
 public:
  Joiner(const ImportState& state, OnnxGraph* graph) : state_(state), graph_(*graph) {
    for (OnnxNode& node : graph_.nodes) {
      for (const auto& output : node.proto.output()) {
        if (!output.empty()) producers_[output] = &node;
      }
      for (const auto& input : node.proto.input()) ++readers_[input];
    }
    for (const std::string& output : graph_.outputs) ++readers_[graph_.Resolve(output)];
  }

  bool Run() {
    for (OnnxNode& node : graph_.nodes) {
      const std::string op = Op(node.proto);
      if (op == "Mul") JoinMul(&node);
      if (op == "Div") JoinDiv(&node);
      if (op == "Add") JoinAdd(&node);
      if (op == "MatMul") JoinAttention(&node);
    }
    return changed_;
  }

 private:
  static std::string Op(const NodeProto& node) {
    return IsDefaultDomain(node.domain()) ? node.op_type() : "";
  }

  const NodeProto* Producer(const std::string& name) const {
    const auto found = producers_.find(name);
    return found == producers_.end() ? nullptr : &found->second->proto;
  }

  // Returns the node of this type whose first output is the value, or null.
  const NodeProto* Made(const std::string& name, const char* op, int inputs) const {
    const NodeProto* node = Producer(name);
    const bool fits = node != nullptr && Op(*node) == op && node->input_size() >= inputs;
    return fits && node->output(0) == name ? node : nullptr;
  }

  const OnnxTensor* Constant(const std::string& name) const {
    const auto found = graph_.constants.find(name);
    return found == graph_.constants.end() ? nullptr : &found->second;
  }

  std::optional<double> Number(const std::string& name) const {
    const OnnxTensor* constant = Constant(name);
    // One of more axes gives its axes to the result.
    if (constant == nullptr || constant->count() != 1 || constant->dims.size() > 1) {
      return std::nullopt;
    }
    return constant->IsFloat() ? (*constant->floats)[0] : static_cast<double>((*constant->ints)[0]);
  }

  bool IsNumber(const std::string& name, double value) const {
    const auto number = Number(name);
    return number && std::abs(*number - value) <= 1e-5 * std::max(std::abs(value), 1e-3);
  }

  const Shape* ShapeOf(const std::string& name) const {
    const auto found = state_.values.find(name);
    return found != state_.values.end() && found->second.known ? &found->second.blob.shape
                                                               : nullptr;
  }

  // Returns the other input of a commutative node if one of them passes the test.
  template <typename Test>
  static std::optional<std::string> Other(const NodeProto& node, const Test& test) {
    if (node.input_size() != 2) return std::nullopt;
    if (test(node.input(1))) return node.input(0);
    if (test(node.input(0))) return node.input(1);
    return std::nullopt;
  }
  std::optional<std::string> OtherThanNumber(const NodeProto* node, double value) const {
    if (node == nullptr) return std::nullopt;
    return Other(*node, [&](const std::string& name) { return IsNumber(name, value); });
  }

  void Replace(OnnxNode* node, const char* op, const std::vector<std::string>& inputs) {
    node->proto.set_op_type(op);
    node->proto.clear_domain();
    node->proto.clear_attribute();
    node->proto.clear_input();
    for (const std::string& input : inputs) node->proto.add_input(input);
    node->opset = kJoinedOpset;
    node->made = true;
    changed_ = true;
  }

  static void SetFloat(OnnxNode* node, const char* name, double value) {
    auto* attribute = node->proto.add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::FLOAT);
    attribute->set_f(static_cast<float>(value));
  }
  static void SetInt(OnnxNode* node, const char* name, int64_t value) {
    auto* attribute = node->proto.add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::INT);
    attribute->set_i(value);
  }

  static int64_t IntOf(const NodeProto& node, const char* name, int64_t fallback) {
    const auto* attribute = FindAttribute(node, name);
    return attribute == nullptr ? fallback : attribute->i();
  }

  // Clip of opset 7 and later, to [low, high].
  bool IsClip(const NodeProto& node, double low, double high) const {
    const auto* min = FindAttribute(node, "min");
    const auto* max = FindAttribute(node, "max");
    if (min != nullptr && max != nullptr) return min->f() == low && max->f() == high;
    return node.input_size() == 3 && IsNumber(node.input(1), low) && IsNumber(node.input(2), high);
  }

  // Returns x if the value is clip(x + 3, 0, 6).
  std::optional<std::string> SixSigmoid(const std::string& name) const {
    const NodeProto* clip = Made(name, "Clip", 1);
    if (clip == nullptr || !IsClip(*clip, 0, 6)) return std::nullopt;
    return OtherThanNumber(Made(clip->input(0), "Add", 2), 3);
  }

  // Returns x if the value is x clip(x + 3, 0, 6).
  std::optional<std::string> SixSwish(const std::string& name) const {
    const NodeProto* mul = Made(name, "Mul", 2);
    if (mul == nullptr) return std::nullopt;
    for (int i = 0; i < 2; ++i) {
      if (SixSigmoid(mul->input(i)) == mul->input(1 - i)) return mul->input(1 - i);
    }
    return std::nullopt;
  }

  // x f(x) of functions f with a layer for the product.
  void JoinGate(OnnxNode* node) {
    for (int i = 0; i < 2; ++i) {
      const std::string x = node->proto.input(1 - i);
      const NodeProto* gate = Producer(node->proto.input(i));
      if (gate == nullptr || gate->input_size() == 0) continue;
      const std::string op = Op(*gate);
      if (op == "Sigmoid" && gate->input(0) == x) return Replace(node, "Swish", {x});
      if (op == "HardSigmoid" && gate->input(0) == x && IsSixth(*gate)) {
        return Replace(node, "HardSwish", {x});
      }
      const NodeProto* inner = op == "Tanh" ? Made(gate->input(0), "Softplus", 1) : nullptr;
      if (inner != nullptr && inner->input(0) == x) return Replace(node, "Mish", {x});
      if ((op == "Div" && gate->input_size() == 2 && SixSigmoid(gate->input(0)) == x &&
           IsNumber(gate->input(1), 6))) {
        return Replace(node, "HardSwish", {x});
      }
    }
  }

  static bool IsSixth(const NodeProto& node) {
    const auto* alpha = FindAttribute(node, "alpha");
    const auto* beta = FindAttribute(node, "beta");
    return alpha != nullptr && std::abs(alpha->f() - 1.0F / 6) < 1e-5F &&
           (beta == nullptr || beta->f() == 0.5F);
  }

  // Returns x if the value is 1 + erf(x / sqrt(2)).
  std::optional<std::string> ErfTerm(const std::string& name) const {
    const auto erf_name = OtherThanNumber(Made(name, "Add", 2), 1);
    const NodeProto* erf = erf_name ? Made(*erf_name, "Erf", 1) : nullptr;
    if (erf == nullptr) return std::nullopt;
    const NodeProto* div = Made(erf->input(0), "Div", 2);
    if (div != nullptr && IsNumber(div->input(1), std::sqrt(2.0))) return div->input(0);
    return OtherThanNumber(Made(erf->input(0), "Mul", 2), std::sqrt(0.5));
  }

  // Returns x if the value is 0.044715 x^3, as x x x or a power.
  std::optional<std::string> CubeTerm(const std::string& name) const {
    const auto cube = OtherThanNumber(Made(name, "Mul", 2), 0.044715);
    if (!cube) return std::nullopt;
    const NodeProto* pow = Made(*cube, "Pow", 2);
    if (pow != nullptr && IsNumber(pow->input(1), 3)) return pow->input(0);
    return std::nullopt;
  }

  // Returns x if the value is 1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)).
  std::optional<std::string> TanhTerm(const std::string& name) const {
    const auto tanh_name = OtherThanNumber(Made(name, "Add", 2), 1);
    const NodeProto* tanh = tanh_name ? Made(*tanh_name, "Tanh", 1) : nullptr;
    const auto inner = tanh == nullptr
                           ? std::nullopt
                           : OtherThanNumber(Made(tanh->input(0), "Mul", 2), 0.7978845608);
    const NodeProto* sum = inner ? Made(*inner, "Add", 2) : nullptr;
    if (sum == nullptr) return std::nullopt;
    for (int i = 0; i < 2; ++i) {
      if (CubeTerm(sum->input(i)) == sum->input(1 - i)) return sum->input(1 - i);
    }
    return std::nullopt;
  }

  // 0.5 x t(x), in any order, with t = 1 + erf or 1 + tanh.
  void JoinGelu(OnnxNode* node) {
    std::vector<std::string> factors;
    double number = 1;
    const std::function<void(const std::string&, int)> collect = [&](const std::string& name,
                                                                     int depth) {
      const NodeProto* mul = depth < 2 ? Made(name, "Mul", 2) : nullptr;
      if (const auto value = Number(name)) {
        number *= *value;
      } else if (mul != nullptr) {
        collect(mul->input(0), depth + 1);
        collect(mul->input(1), depth + 1);
      } else {
        factors.push_back(name);
      }
    };
    collect(node->proto.input(0), 0);
    collect(node->proto.input(1), 0);
    if (factors.size() != 2 || std::abs(number - 0.5) > 1e-6) return;
    for (size_t i = 0; i < 2; ++i) {
      const std::string x = factors[1 - i];
      if (ErfTerm(factors[i]) == x) return Replace(node, "Gelu", {x});
      if (TanhTerm(factors[i]) == x) {
        Replace(node, "Gelu", {x});
        auto* attribute = node->proto.add_attribute();
        attribute->set_name("approximate");
        attribute->set_type(onnx::AttributeProto::STRING);
        attribute->set_s("tanh");
        return;
      }
    }
  }

  // Adds a constant input to a normalization that lacks it.
  void Extend(OnnxNode* node, int position) {
    for (int i = 0; i < 2; ++i) {
      const NodeProto* norm = Made(node->proto.input(i), "LayerNormalization", position);
      const OnnxTensor* constant = Constant(node->proto.input(1 - i));
      const Shape* shape = norm == nullptr ? nullptr : ShapeOf(norm->input(0));
      if (shape == nullptr || constant == nullptr || norm->input_size() != position) continue;
      if (constant->dims.size() > static_cast<size_t>(shape->axes() - FirstAxis(*norm, *shape))) {
        continue;
      }
      std::vector<std::string> inputs(norm->input().begin(), norm->input().end());
      inputs.push_back(node->proto.input(1 - i));
      const auto attributes = norm->attribute();
      Replace(node, "LayerNormalization", inputs);
      *node->proto.mutable_attribute() = attributes;
      return;
    }
  }

  static int FirstAxis(const NodeProto& norm, const Shape& shape) {
    const int64_t axis = IntOf(norm, "axis", -1);
    return static_cast<int>(axis < 0 ? axis + shape.axes() : axis);
  }

  void JoinMul(OnnxNode* node) {
    if (node->proto.input_size() != 2) return;
    if (SixSwish(node->proto.input(0)) && IsNumber(node->proto.input(1), 1.0 / 6)) {
      return Replace(node, "HardSwish", {*SixSwish(node->proto.input(0))});
    }
    JoinGate(node);
    if (node->proto.op_type() == "Mul") JoinGelu(node);
    if (node->proto.op_type() == "Mul") Extend(node, 1);
  }

  // Returns the first axis if the node is a mean over all axes from it on that keeps them.
  std::optional<int64_t> MeanFrom(const NodeProto* mean) const {
    if (mean == nullptr || IntOf(*mean, "keepdims", 1) == 0) return std::nullopt;
    const Shape* shape = ShapeOf(mean->input(0));
    std::vector<int64_t> axes;
    if (const auto* list = FindAttribute(*mean, "axes")) {
      axes.assign(list->ints().begin(), list->ints().end());
    } else if (mean->input_size() > 1) {
      const OnnxTensor* constant = Constant(mean->input(1));
      if (constant != nullptr && !constant->IsFloat()) axes = *constant->ints;
    }
    if (shape == nullptr || axes.empty()) return std::nullopt;
    for (int64_t& axis : axes) axis += axis < 0 ? shape->axes() : 0;
    std::ranges::sort(axes);
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axes[axes.size() - 1 - i] != shape->axes() - 1 - static_cast<int64_t>(i)) {
        return std::nullopt;
      }
    }
    return axes[0];
  }

  // Returns the value whose square this is.
  std::optional<std::string> SquareOf(const std::string& name) const {
    const NodeProto* pow = Made(name, "Pow", 2);
    if (pow != nullptr && IsNumber(pow->input(1), 2)) return pow->input(0);
    const NodeProto* mul = Made(name, "Mul", 2);
    if (mul != nullptr && mul->input(0) == mul->input(1)) return mul->input(0);
    return std::nullopt;
  }

  // (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps).
  void JoinLayerNorm(OnnxNode* node) {
    const NodeProto* difference = Made(node->proto.input(0), "Sub", 2);
    const NodeProto* root = Made(node->proto.input(1), "Sqrt", 1);
    const NodeProto* sum = root == nullptr ? nullptr : Made(root->input(0), "Add", 2);
    if (difference == nullptr || sum == nullptr) return;
    const auto variance = Other(*sum, [&](const std::string& n) { return Number(n).has_value(); });
    if (!variance) return;
    const double eps = *Number(sum->input(*variance == sum->input(0) ? 1 : 0));
    if (!(eps >= 0)) return;
    const NodeProto* square_mean = Made(*variance, "ReduceMean", 1);
    const NodeProto* mean = Made(difference->input(1), "ReduceMean", 1);
    const auto axis = MeanFrom(mean);
    if (!axis || MeanFrom(square_mean) != axis || mean->input(0) != difference->input(0)) return;
    const auto squared = SquareOf(square_mean->input(0));
    const NodeProto* again = squared ? Made(*squared, "Sub", 2) : nullptr;
    if (again == nullptr || again->input(0) != difference->input(0)) return;
    const NodeProto* other_mean = Made(again->input(1), "ReduceMean", 1);
    if (MeanFrom(other_mean) != axis || other_mean->input(0) != difference->input(0)) return;
    const std::string x = difference->input(0);
    Replace(node, "LayerNormalization", {x});
    SetInt(node, "axis", *axis);
    SetFloat(node, "epsilon", eps);
  }

  void JoinDiv(OnnxNode* node) {
    if (node->proto.input_size() != 2) return;
    if (IsNumber(node->proto.input(1), 6)) {
      if (const auto x = SixSwish(node->proto.input(0))) return Replace(node, "HardSwish", {*x});
      if (const auto x = SixSigmoid(node->proto.input(0))) {
        Replace(node, "HardSigmoid", {*x});
        SetFloat(node, "alpha", 1.0 / 6);
        return SetFloat(node, "beta", 0.5);
      }
    }
    JoinLayerNorm(node);
  }

  // A product with constant weights and a bias for each output.
  void JoinBias(OnnxNode* node) {
    for (int i = 0; i < 2; ++i) {
      const NodeProto* product = Made(node->proto.input(i), "MatMul", 2);
      const OnnxTensor* bias = Constant(node->proto.input(1 - i));
      if (product == nullptr || bias == nullptr || product->input_size() != 2) continue;
      const OnnxTensor* weight = Constant(product->input(1));
      const Shape* x = ShapeOf(product->input(0));
      if (weight == nullptr || weight->dims.size() != 2 || x == nullptr || x->axes() < 2) continue;
      if (!bias->IsFloat() || bias->dims.size() != 1 || bias->count() != weight->dims[1]) continue;
      const std::string a = product->input(0);
      const std::string b = product->input(1);
      return Replace(node, "MatMul", {a, b, node->proto.input(1 - i)});
    }
  }

  // A convolution without bias and a constant for each channel.
  void JoinConvolutionBias(OnnxNode* node) {
    for (int i = 0; i < 2; ++i) {
      const std::string& name = node->proto.input(i);
      const NodeProto* convolution = Made(name, "Conv", 2);
      if (convolution == nullptr) convolution = Made(name, "ConvTranspose", 2);
      const OnnxTensor* bias = Constant(node->proto.input(1 - i));
      const Shape* shape = ShapeOf(name);
      if (convolution == nullptr || bias == nullptr || shape == nullptr) continue;
      if (convolution->input_size() != 2 || readers_.at(name) != 1 || shape->axes() < 3) continue;
      // C x 1 x ... or 1 x C x 1 x ....
      const auto axes = static_cast<size_t>(shape->axes());
      const size_t channels = bias->dims.size() + 1 - axes;
      if (!bias->IsFloat() || (bias->dims.size() != axes && bias->dims.size() + 1 != axes))
        continue;
      if (bias->count() != (*shape)[1] || bias->dims[channels] != (*shape)[1]) continue;
      const std::string flat = graph_.names.Add(node->proto.input(1 - i) + "/flat");
      graph_.constants[flat] = ReshapeTensor(*bias, {bias->count()});
      const std::vector<std::string> inputs = {convolution->input(0), convolution->input(1), flat};
      const auto attributes = convolution->attribute();
      const int64_t opset = producers_.at(name)->opset;
      Replace(node, convolution->op_type() == "Conv" ? "Conv" : "ConvTranspose", inputs);
      *node->proto.mutable_attribute() = attributes;
      node->opset = opset;
      return;
    }
  }

  void JoinAdd(OnnxNode* node) {
    if (node->proto.input_size() != 2) return;
    Extend(node, 2);
    if (node->proto.op_type() == "Add") JoinBias(node);
    if (node->proto.op_type() == "Add") JoinConvolutionBias(node);
  }

  // Takes up to four factors out of a value: x c or x / c. Returns the rest.
  std::string Unscaled(std::string name, double* factor) const {
    for (int i = 0; i < 4; ++i) {
      const NodeProto* node = Producer(name);
      if (node == nullptr || node->input_size() != 2) return name;
      if (Op(*node) == "Div" && Number(node->input(1)) && *Number(node->input(1)) != 0) {
        *factor /= *Number(node->input(1));
        name = node->input(0);
      } else if (Op(*node) == "Mul") {
        const auto rest = Other(*node, [&](const std::string& n) { return Number(n).has_value(); });
        if (!rest) return name;
        *factor *= *Number(node->input(*rest == node->input(0) ? 1 : 0));
        name = *rest;
      } else {
        return name;
      }
    }
    return name;
  }

  bool IsLastAxis(const OnnxNode& softmax) const {
    const Shape* shape = ShapeOf(softmax.proto.input(0));
    if (shape == nullptr) return false;
    const int64_t axis = IntOf(softmax.proto, "axis", softmax.opset < 13 ? 1 : -1);
    return axis == -1 || axis == shape->axes() - 1;
  }

  // softmax(scale q k^T + mask) v.
  void JoinAttention(OnnxNode* node) {
    if (node->proto.input_size() != 2) return;
    const auto softmax = producers_.find(node->proto.input(0));
    if (softmax == producers_.end() || Op(softmax->second->proto) != "Softmax" ||
        !IsLastAxis(*softmax->second)) {
      return;
    }
    std::string scores = softmax->second->proto.input(0);
    std::string mask;
    if (const NodeProto* sum = Made(scores, "Add", 2)) {
      const bool first = IsProduct(sum->input(0));
      if (!first && !IsProduct(sum->input(1))) return;
      mask = sum->input(first ? 1 : 0);
      scores = sum->input(first ? 0 : 1);
    }
    double scale = 1;
    const NodeProto* product = Made(Unscaled(scores, &scale), "MatMul", 2);
    if (product == nullptr) return;
    const std::string q = Unscaled(product->input(0), &scale);
    const std::string k = Unscaled(product->input(1), &scale);
    MakeAttention(node, q, k, mask, scale);
  }

  bool IsProduct(const std::string& name) const {
    double scale = 1;
    return Made(Unscaled(name, &scale), "MatMul", 2) != nullptr;
  }

  // The keys, which stand with their last two axes swapped, are swapped back by the new node.
  void MakeAttention(OnnxNode* node, const std::string& q, const std::string& k,
                     const std::string& mask, double scale) {
    const std::string v = node->proto.input(1);
    const Shape* queries = ShapeOf(q);
    const Shape* keys = ShapeOf(k);
    const Shape* values = ShapeOf(v);
    if (queries == nullptr || keys == nullptr || values == nullptr) return;
    const int axes = queries->axes();
    if ((axes != 3 && axes != 4) || keys->axes() != axes || values->axes() != axes) return;
    for (int i = 0; i + 2 < axes; ++i) {
      if ((*keys)[i] != (*queries)[i] || (*values)[i] != (*queries)[i]) return;
    }
    if (Constant(q) != nullptr || Constant(k) != nullptr || Constant(v) != nullptr) return;
    const Shape* added = mask.empty() ? nullptr : ShapeOf(mask);
    if (!mask.empty()) {
      // Attention takes keys that a shorter mask lacks as hidden; ONNX would repeat it.
      if (added == nullptr || added->axes() < 1 || added->axes() > axes) return;
      if ((*added)[added->axes() - 1] != (*values)[axes - 2]) return;
      // The layer repeats the mask, but no queries.
      for (int i = 2; i <= added->axes(); ++i) {
        const int64_t size = (*added)[added->axes() - i];
        if (size != 1 && size != (*queries)[axes - i]) return;
      }
    }
    if (added != nullptr && axes == 3 && added->axes() == 3 && (*added)[0] != 1) return;
    std::vector<std::string> inputs = {q, k, v};
    if (!mask.empty()) inputs.push_back(mask);
    Replace(node, "Attention", inputs);
    SetFloat(node, "scale", scale);
    SetInt(node, "crema_transposed_keys", 1);
    if (axes == 3) SetInt(node, "q_num_heads", 1);
    if (axes == 3) SetInt(node, "kv_num_heads", 1);
  }

  const ImportState& state_;
  OnnxGraph& graph_;
  std::map<std::string, OnnxNode*> producers_;
  std::map<std::string, int> readers_;  // number, by value
  bool changed_ = false;
};

}  // namespace

void RemoveUnread(OnnxGraph* graph) {
  std::set<std::string> read;
  for (const std::string& output : graph->outputs) read.insert(graph->Resolve(output));
  const std::function<void(const onnx::NodeProto&)> add = [&](const onnx::NodeProto& node) {
    for (const std::string& name : node.input()) read.insert(graph->Resolve(name));
    for (const auto& attribute : node.attribute()) {
      for (const auto& child : attribute.g().node()) add(child);
      for (const auto& output : attribute.g().output()) read.insert(graph->Resolve(output.name()));
    }
  };
  std::vector<OnnxNode> kept;
  for (auto node = graph->nodes.rbegin(); node != graph->nodes.rend(); ++node) {
    const bool needed = std::ranges::any_of(
        node->proto.output(), [&](const std::string& name) { return read.contains(name); });
    if (!needed) continue;
    add(node->proto);
    kept.push_back(std::move(*node));
  }
  std::ranges::reverse(kept);
  graph->nodes = std::move(kept);
}

bool JoinNodes(const ImportState& state, OnnxGraph* graph) {
  const size_t before = graph->nodes.size();
  const bool joined = Joiner(state, graph).Run();
  RemoveUnread(graph);
  return joined || graph->nodes.size() != before;
}

}  // namespace crema
