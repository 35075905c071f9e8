#include "onnx/import_unroll.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "onnx/import_fold.h"

namespace crema {
namespace {

using Nodes = std::vector<OnnxNode>;

// Opset of the nodes that are made here.
constexpr int64_t kMadeOpset = 13;
constexpr int64_t kMostUnrolled = 1024;
// Limits of all loops of a model together.
constexpr int64_t kMostUnrolledNodes = int64_t{1} << 17;
constexpr int64_t kMostUnrolledBytes = int64_t{1} << 30;
constexpr int64_t kMostSequenceItems = int64_t{1} << 20;  // of all sequences together

[[noreturn]] void Refuse(const std::string& why) { Fail(ErrorCode::kUnsupported, why); }

// Nodes of a graph and of those in it, and the bytes of external data that they read.
struct GraphSize {
  int64_t nodes = 0;
  int64_t external = 0;

  void AddTensor(const onnx::TensorProto& tensor) {
    if (tensor.data_location() != onnx::TensorProto::EXTERNAL) return;
    external += BoundedCount({tensor.dims().begin(), tensor.dims().end()}) * sizeof(double);
  }
  void AddGraph(const onnx::GraphProto& graph) {
    nodes += graph.node_size() + graph.input_size() + graph.output_size();
    for (const auto& tensor : graph.initializer()) AddTensor(tensor);
    for (const auto& node : graph.node()) {
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_t()) AddTensor(attribute.t());
        if (attribute.has_g()) AddGraph(attribute.g());
      }
    }
  }
};

// Refuses the model before a loop makes more of it than it may.
void CheckUnrolled(const OnnxNode& node, const onnx::GraphProto& body, int64_t steps,
                   OnnxGraph* graph) {
  GraphSize size;
  size.AddGraph(body);
  OnnxWork& work = graph->work;
  work.unrolled_nodes += steps * size.nodes;
  work.unrolled_bytes += steps * (static_cast<int64_t>(body.ByteSizeLong()) +
                                  std::min(size.external, kMostUnrolledBytes));
  if (work.unrolled_nodes <= kMostUnrolledNodes && work.unrolled_bytes <= kMostUnrolledBytes)
    return;
  Fail(ErrorCode::kUnsupported,
       StrCat(DescribeNode(node.proto), " has ", steps,
              " steps, by which the loops of the model become more than ", kMostUnrolledNodes,
              " nodes or ", kMostUnrolledBytes >> 20, " MiB; export it for shorter sequences"),
       {.file = graph->path});
}

// Makes nodes under names of their own.
class Maker {
 public:
  Maker(std::string prefix, OnnxGraph* graph) : prefix_(std::move(prefix)), graph_(*graph) {}

  std::string Constant(OnnxTensor tensor) {
    const std::string name = graph_.names.Add(prefix_ + "/constant");
    graph_.Add(name, std::move(tensor));
    return name;
  }

  // Returns the names of the outputs.
  std::vector<std::string> Add(const char* op, const std::vector<std::string>& inputs,
                               std::optional<int64_t> axis = {}, size_t outputs = 1,
                               const std::string& output = "") {
    OnnxNode node;
    node.opset = kMadeOpset;
    node.made = true;
    node.proto.set_op_type(op);
    node.proto.set_name(prefix_);
    for (const std::string& input : inputs) node.proto.add_input(input);
    std::vector<std::string> names;
    for (size_t i = 0; i < outputs; ++i) {
      names.push_back(output.empty() ? graph_.names.Add(StrCat(prefix_, "/", op)) : output);
      node.proto.add_output(names.back());
    }
    if (axis) {
      auto* attribute = node.proto.add_attribute();
      attribute->set_name("axis");
      attribute->set_type(onnx::AttributeProto::INT);
      attribute->set_i(*axis);
    }
    nodes_.push_back(std::move(node));
    return names;
  }

  // Adds a node of one output, with the attributes of another one.
  std::string AddLike(const onnx::NodeProto& like, const char* op,
                      const std::vector<std::string>& inputs) {
    const std::string output = Add(op, inputs)[0];
    *nodes_.back().proto.mutable_attribute() = like.attribute();
    return output;
  }

  std::string Unsqueeze(const std::string& value, int64_t axis) {
    return Add("Unsqueeze", {value, Constant(MakeInts({1}, {axis}))})[0];
  }

  void Append(Nodes nodes) {
    nodes_.insert(nodes_.end(), std::make_move_iterator(nodes.begin()),
                  std::make_move_iterator(nodes.end()));
  }

  Nodes Take() { return std::move(nodes_); }

 private:
  const std::string prefix_;
  OnnxGraph& graph_;
  Nodes nodes_;
};

std::string PrefixOf(const OnnxNode& node) {
  return node.proto.name().empty() ? node.proto.op_type() : node.proto.name();
}

const onnx::GraphProto& GraphOf(const OnnxNode& node, const char* attribute) {
  const auto* found = FindAttribute(node.proto, attribute);
  if (found == nullptr || !found->has_g()) Refuse(StrCat("has no ", attribute));
  return found->g();
}

void Alias(const OnnxNode& node, size_t output, const std::string& value, OnnxGraph* graph) {
  if (static_cast<int>(output) >= node.proto.output_size()) return;
  const std::string& name = node.proto.output(static_cast<int>(output));
  if (name.empty()) return;
  if (graph->Resolve(value) == name) Refuse("gives its own output");
  graph->aliases[name] = value;
}

std::optional<Nodes> TakeBranch(const OnnxNode& node, ImportState* state) {
  const NodeImport import(node, state);
  const OnnxTensor* condition = import.Constant(0);
  if (condition == nullptr || condition->IsFloat() || condition->count() != 1) {
    Refuse("has a condition that is not constant");
  }
  const char* name = (*condition->ints)[0] != 0 ? "then_branch" : "else_branch";
  InlinedGraph branch = InlineGraph(node, GraphOf(node, name), {}, state->graph);
  const auto wanted = static_cast<size_t>(node.proto.output_size());
  if (branch.outputs.size() < wanted) {
    Refuse(StrCat("has ", wanted, " outputs, but its ", name, " has ", branch.outputs.size()));
  }
  for (size_t i = 0; i < branch.outputs.size(); ++i) {
    Alias(node, i, branch.outputs[i], state->graph);
  }
  return std::move(branch.nodes);
}

// Values that each step gives, joined along a new axis.
void JoinSteps(const OnnxNode& node, size_t output, const std::vector<std::string>& values,
               int64_t axis, bool reversed, Maker* maker, OnnxGraph* graph) {
  std::vector<std::string> parts;
  for (const std::string& value : values) parts.push_back(maker->Unsqueeze(value, axis));
  if (reversed) std::ranges::reverse(parts);
  Alias(node, output, maker->Add("Concat", parts, axis)[0], graph);
}

int64_t EntryOf(const std::vector<int64_t>& list, size_t index) {
  return index < list.size() ? list[index] : 0;
}

std::optional<Nodes> UnrollScan(const OnnxNode& node, ImportState* state) {
  if (node.opset < 9) Refuse("is a Scan of opset 8");
  const NodeImport import(node, state);
  const onnx::GraphProto& body = GraphOf(node, "body");
  const auto scans = static_cast<size_t>(import.Int("num_scan_inputs", 0));
  if (scans < 1 || scans > import.inputs()) Refuse("has no scan inputs");
  const size_t states = import.inputs() - scans;
  const auto axes = import.IntList("scan_input_axes");
  const auto directions = import.IntList("scan_input_directions");
  const auto axis_of = [&](size_t i) {
    const int64_t axis = EntryOf(axes, i);
    return axis < 0 ? axis + import.ShapeOf(states + i).axes() : axis;
  };
  const int64_t first_axis = axis_of(0);
  if (first_axis < 0 || first_axis >= import.ShapeOf(states).axes()) Refuse("has a wrong axis");
  const int64_t steps = import.ShapeOf(states)[static_cast<int>(first_axis)];
  if (steps < 1 || steps > kMostUnrolled) Refuse(StrCat("has ", steps, " steps"));
  CheckUnrolled(node, body, steps, state->graph);
  Maker maker(PrefixOf(node), state->graph);
  std::vector<std::string> current(node.proto.input().begin(),
                                   node.proto.input().begin() + static_cast<int>(states));
  std::vector<std::vector<std::string>> collected;
  for (int64_t t = 0; t < steps; ++t) {
    std::vector<std::string> inputs = current;
    for (size_t i = 0; i < scans; ++i) {
      const int64_t place = EntryOf(directions, i) != 0 ? steps - 1 - t : t;
      const std::string index = maker.Constant(MakeInts({}, {place}));
      inputs.push_back(maker.Add("Gather", {node.proto.input(static_cast<int>(states + i)), index},
                                 axis_of(i))[0]);
    }
    InlinedGraph step = InlineGraph(node, body, inputs, state->graph);
    maker.Append(std::move(step.nodes));
    if (step.outputs.size() < states) Refuse("has a body with too few outputs");
    current.assign(step.outputs.begin(),
                   step.outputs.begin() + static_cast<std::ptrdiff_t>(states));
    collected.resize(step.outputs.size() - states);
    for (size_t i = states; i < step.outputs.size(); ++i) {
      collected[i - states].push_back(step.outputs[i]);
    }
  }
  for (size_t i = 0; i < states; ++i) Alias(node, i, current[i], state->graph);
  const auto out_axes = import.IntList("scan_output_axes");
  const auto out_directions = import.IntList("scan_output_directions");
  for (size_t i = 0; i < collected.size(); ++i) {
    JoinSteps(node, states + i, collected[i], EntryOf(out_axes, i), EntryOf(out_directions, i) != 0,
              &maker, state->graph);
  }
  return maker.Take();
}

// Returns true if a body takes all of its steps: its condition is the one that it gets, or a
// constant.
bool AlwaysGoesOn(const onnx::GraphProto& body) {
  if (body.output_size() == 0 || body.input_size() < 2) return false;
  std::string name = body.output(0).name();
  for (int i = body.node_size() - 1; i >= 0; --i) {
    const onnx::NodeProto& node = body.node(i);
    if (node.output_size() != 1 || node.output(0) != name) continue;
    const auto* value = FindAttribute(node, "value");
    if (node.op_type() == "Constant" && value != nullptr) {
      const OnnxTensor tensor = ReadOnnxTensor(value->t(), "");
      return !tensor.IsFloat() && tensor.count() == 1 && (*tensor.ints)[0] != 0;
    }
    if (node.op_type() != "Identity" || node.input_size() != 1) return false;
    name = node.input(0);
  }
  return name == body.input(1).name();
}

std::optional<Nodes> UnrollLoop(const OnnxNode& node, ImportState* state) {
  const NodeImport import(node, state);
  const onnx::GraphProto& body = GraphOf(node, "body");
  if (!import.Has(0)) Refuse("has no number of steps");
  const std::vector<int64_t> trip = import.Ints(0, "number of steps");
  if (trip.size() != 1 || trip[0] < 1 || trip[0] > kMostUnrolled) {
    Refuse(StrCat("has not 1 to ", kMostUnrolled, " steps"));
  }
  const bool begins = !import.Has(1) || import.Ints(1, "condition") == std::vector<int64_t>{1};
  if (!begins || !AlwaysGoesOn(body)) Refuse("ends by a condition that is not constant");
  CheckUnrolled(node, body, trip[0], state->graph);
  const size_t states = import.inputs() - std::min<size_t>(import.inputs(), 2);
  Maker maker(PrefixOf(node), state->graph);
  const std::string on = maker.Constant(MakeInts({}, {1}, onnx::TensorProto::BOOL));
  std::vector<std::string> current;
  for (size_t i = 0; i < states; ++i) current.push_back(node.proto.input(static_cast<int>(i) + 2));
  std::vector<std::vector<std::string>> collected;
  for (int64_t t = 0; t < trip[0]; ++t) {
    std::vector<std::string> inputs = {maker.Constant(MakeInts({}, {t})), on};
    inputs.insert(inputs.end(), current.begin(), current.end());
    InlinedGraph step = InlineGraph(node, body, inputs, state->graph);
    maker.Append(std::move(step.nodes));
    if (step.outputs.size() < states + 1) Refuse("has a body with too few outputs");
    current.assign(step.outputs.begin() + 1,
                   step.outputs.begin() + 1 + static_cast<std::ptrdiff_t>(states));
    collected.resize(step.outputs.size() - 1 - states);
    for (size_t i = 0; i < collected.size(); ++i) {
      collected[i].push_back(step.outputs[1 + states + i]);
    }
  }
  for (size_t i = 0; i < states; ++i) Alias(node, i, current[i], state->graph);
  for (size_t i = 0; i < collected.size(); ++i) {
    JoinSteps(node, states + i, collected[i], 0, false, &maker, state->graph);
  }
  return maker.Take();
}

std::optional<Nodes> SplitToSequence(const OnnxNode& node, OnnxSequences* sequences,
                                     ImportState* state) {
  const NodeImport import(node, state);
  const int axes = import.ShapeOf(0).axes();
  const int64_t given = import.Int("axis", 0);
  const int64_t axis = given < 0 ? given + axes : given;
  if (axis < 0 || axis >= axes) Refuse("has a wrong axis");
  const int64_t size = import.ShapeOf(0)[static_cast<int>(axis)];
  std::vector<int64_t> sizes(static_cast<size_t>(std::min(size, kMostUnrolled + 1)), 1);
  if (import.Has(1)) {
    sizes = import.Ints(1, "split");
    if (import.ShapeOf(1).axes() == 0) {  // parts of one size
      const int64_t part = sizes.empty() ? 0 : sizes[0];
      if (part < 1) Refuse("has parts without elements");
      sizes.clear();
      for (int64_t at = 0; at < size; at += part) sizes.push_back(std::min(part, size - at));
    }
  }
  if (sizes.empty() || static_cast<int64_t>(sizes.size()) > kMostUnrolled) {
    Refuse(StrCat("has not 1 to ", kMostUnrolled, " parts"));
  }
  Maker maker(PrefixOf(node), state->graph);
  const auto count = static_cast<int64_t>(sizes.size());
  const std::string split = maker.Constant(MakeInts({count}, std::move(sizes)));
  auto parts = maker.Add("Split", {node.proto.input(0), split}, axis, static_cast<size_t>(count));
  if (!import.Has(1) && import.Int("keepdims", 1) == 0) {
    for (std::string& part : parts) {
      part = maker.Add("Squeeze", {part, maker.Constant(MakeInts({1}, {axis}))})[0];
    }
  }
  (*sequences)[node.proto.output(0)] = std::move(parts);
  return maker.Take();
}

std::optional<Nodes> ConcatFromSequence(const OnnxNode& node, const OnnxSequences& sequences,
                                        ImportState* state) {
  const auto sequence = sequences.find(node.proto.input(0));
  if (sequence == sequences.end() || sequence->second.empty()) return std::nullopt;
  const NodeImport import(node, state);
  Maker maker(PrefixOf(node), state->graph);
  const int64_t axis = import.Int("axis", 0);
  std::vector<std::string> parts = sequence->second;
  if (import.Int("new_axis", 0) != 0) {
    for (std::string& part : parts) part = maker.Unsqueeze(part, axis);
  }
  maker.Add("Concat", parts, axis, 1, node.proto.output(0));
  return maker.Take();
}

// Operators on bytes: the operator that they are on floats, and its operands. Each operand is three
// inputs, the value, its scale and its zero point; then come the scale and zero point of the
// result, and a bias.
struct QuantizedForm {
  const char* op;
  size_t operands;
  int64_t weight_axis = 0;  // of scales of the second operand
  bool has_bias = false;
  bool constant = false;    // the second operand must be constant
  bool bias_first = false;  // before the scale of the result, which may be missing
};

std::optional<QuantizedForm> QuantizedFormOf(const onnx::NodeProto& node) {
  static const std::map<std::string, QuantizedForm> kForms = {
      {"QLinearConv", {"Conv", 2, 0, true, true}},
      {"QLinearMatMul", {"MatMul", 2, -1, false, true}},
      {"com.microsoft.QGemm", {"Gemm", 2, 1, true, true, true}},
      {"com.microsoft.QLinearAdd", {"Add", 2}},
      {"com.microsoft.QLinearMul", {"Mul", 2}},
      {"com.microsoft.QLinearAveragePool", {"AveragePool", 1}},
      {"com.microsoft.QLinearGlobalAveragePool", {"GlobalAveragePool", 1}},
      {"com.microsoft.QLinearLeakyRelu", {"LeakyRelu", 1}},
      {"com.microsoft.QLinearSigmoid", {"Sigmoid", 1}},
  };
  const bool plain = IsDefaultDomain(node.domain());
  const auto form =
      kForms.find(plain ? node.op_type() : StrCat(node.domain(), ".", node.op_type()));
  if (form == kForms.end()) return std::nullopt;
  return form->second;
}

// Dequantizes the operands, computes on floats, and quantizes. Returns nothing for scales of rows
// and weights that are not constant.
std::optional<Nodes> ExpandQuantized(const OnnxNode& node, const QuantizedForm& form,
                                     ImportState* state) {
  const NodeImport import(node, state);
  const auto input = [&](size_t i) { return node.proto.input(static_cast<int>(i)); };
  const auto is_single = [&](size_t i) { return import.Has(i) && import.ShapeOf(i).count() == 1; };
  const size_t after = 3 * form.operands;
  const size_t result = form.bias_first ? after + 1 : after;
  const size_t bias = form.bias_first ? after : after + 2;
  const bool quantizes = import.Has(result);
  const bool fits = import.inputs() >= after && is_single(1) &&
                    (quantizes ? is_single(result) && import.Has(result + 1) : form.bias_first);
  if (!fits) return std::nullopt;
  if (form.constant && (import.Constant(3) == nullptr || import.Constant(4) == nullptr)) {
    return std::nullopt;
  }
  if (import.Int("channels_last", 0) != 0) Refuse("has its channels last");
  if (form.bias_first && import.Float("alpha", 1) != 1) Refuse("has an alpha");
  const int64_t weight_axis = import.Int("transB", 0) != 0 ? 0 : form.weight_axis;
  Maker maker(PrefixOf(node), state->graph);
  std::vector<std::string> operands;
  for (size_t i = 0; i < after; i += 3) {
    const std::vector<std::string> parts = {input(i), input(i + 1), input(i + 2)};
    operands.push_back(maker.Add("DequantizeLinear", parts, i == 0 ? 0 : weight_axis)[0]);
  }
  if (form.has_bias && import.Has(bias)) {
    const std::string scale = maker.Add("Mul", {input(1), input(4)})[0];
    operands.push_back(maker.Add("DequantizeLinear", {input(bias), scale}, 0)[0]);
  }
  const std::string real = maker.AddLike(node.proto, form.op, operands);
  if (!quantizes) {
    Alias(node, 0, real, state->graph);
    return maker.Take();
  }
  maker.Add("QuantizeLinear", {real, input(result), input(result + 1)}, {}, 1,
            node.proto.output(0));
  return maker.Take();
}

// Returns a place in a sequence of `size` elements, or `fallback` if the input is missing.
size_t PlaceOf(const NodeImport& node, size_t input, size_t size, size_t fallback, bool end) {
  if (!node.Has(input)) return fallback;
  const std::vector<int64_t> place = node.Ints(input, "position");
  const auto count = static_cast<int64_t>(size);
  if (place.size() != 1 || place[0] < -count || place[0] >= count + (end ? 1 : 0)) {
    Refuse("has a position outside of its sequence");
  }
  return static_cast<size_t>(place[0] < 0 ? place[0] + count : place[0]);
}

}  // namespace

std::optional<std::vector<OnnxNode>> UnrollNode(const OnnxNode& node, OnnxSequences* sequences,
                                                ImportState* state) {
  const std::string& op = node.proto.op_type();
  if (const auto form = QuantizedFormOf(node.proto)) return ExpandQuantized(node, *form, state);
  if (node.proto.domain() == "com.microsoft") return std::nullopt;
  if (op == "If") return TakeBranch(node, state);
  if (op == "Scan") return UnrollScan(node, state);
  if (op == "Loop") return UnrollLoop(node, state);
  if (op == "SplitToSequence") return SplitToSequence(node, sequences, state);
  if (op == "ConcatFromSequence") return ConcatFromSequence(node, *sequences, state);
  return std::nullopt;
}

bool ResolveSequence(const OnnxNode& node, OnnxSequences* sequences, ImportState* state) {
  const onnx::NodeProto& proto = node.proto;
  const std::string& op = proto.op_type();
  if (op == "SequenceConstruct" || op == "SequenceEmpty") {
    (*sequences)[proto.output(0)] = {proto.input().begin(), proto.input().end()};
    return true;
  }
  if (proto.input_size() == 0) return false;
  const auto found = sequences->find(proto.input(0));
  if (found == sequences->end()) return false;
  int64_t& work = state->graph->work.sequence_items;
  work += static_cast<int64_t>(found->second.size());
  if (work > kMostSequenceItems) {
    Fail(ErrorCode::kUnsupported,
         StrCat(DescribeNode(proto), " and the sequences before it have more than ",
                kMostSequenceItems, " elements together"),
         {.file = state->graph->path});
  }
  std::vector<std::string> items = found->second;
  NodeImport import(node, state);
  if (op == "SequenceLength") {
    import.Output(0, MakeInts({}, {static_cast<int64_t>(items.size())}));
  } else if (op == "SequenceAt") {
    if (!import.Has(1)) Refuse("has no position");
    Alias(node, 0, items[PlaceOf(import, 1, items.size(), 0, false)], state->graph);
  } else if (op == "SequenceInsert") {
    const size_t place = PlaceOf(import, 2, items.size(), items.size(), true);
    items.insert(items.begin() + static_cast<std::ptrdiff_t>(place), proto.input(1));
    (*sequences)[proto.output(0)] = std::move(items);
  } else if (op == "SequenceErase") {
    if (items.empty()) Refuse("erases from an empty sequence");
    const size_t place = PlaceOf(import, 1, items.size(), items.size() - 1, false);
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(place));
    (*sequences)[proto.output(0)] = std::move(items);
  } else {
    return false;
  }
  return true;
}

}  // namespace crema
