#include "onnx/import_graph.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <utility>

#include "core/error.h"
#include "core/strings.h"

namespace crema {
namespace {

using Renaming = std::function<std::string(const std::string&)>;
using Opsets = std::map<std::string, int64_t>;

constexpr int64_t kMostInlinedNodes = int64_t{1} << 18;
constexpr int64_t kMostInlinedBytes = int64_t{1} << 30;
constexpr int64_t kMostSparseElements = int64_t{1} << 26;  // of all sparse initializers, dense

std::string DomainOf(const std::string& domain) { return IsDefaultDomain(domain) ? "" : domain; }

template <typename Imports>
Opsets OpsetsOf(const Imports& imports) {
  Opsets opsets;
  for (const auto& opset : imports) opsets[DomainOf(opset.domain())] = opset.version();
  return opsets;
}

// Renames all names that a node reads or writes, except those that inner graphs define.
void RenameNode(onnx::NodeProto* node, const Renaming& rename) {
  for (std::string& name : *node->mutable_input()) {
    if (!name.empty()) name = rename(name);
  }
  for (std::string& name : *node->mutable_output()) {
    if (!name.empty()) name = rename(name);
  }
  for (auto& attribute : *node->mutable_attribute()) {
    if (!attribute.has_g()) continue;
    onnx::GraphProto* graph = attribute.mutable_g();
    std::set<std::string> inner;
    for (const auto& input : graph->input()) inner.insert(input.name());
    for (const auto& tensor : graph->initializer()) inner.insert(tensor.name());
    for (const auto& child : graph->node()) {
      inner.insert(child.output().begin(), child.output().end());
    }
    const Renaming outer = [&](const std::string& name) {
      return inner.contains(name) ? name : rename(name);
    };
    for (auto& child : *graph->mutable_node()) RenameNode(&child, outer);
    for (auto& output : *graph->mutable_output()) output.set_name(outer(output.name()));
  }
}

// Replaces references to attributes of the calling node.
void BindAttributes(onnx::NodeProto* node, const onnx::NodeProto& call,
                    const onnx::FunctionProto& function) {
  const auto bound = [&](const std::string& name) -> const onnx::AttributeProto* {
    if (const auto* given = FindAttribute(call, name)) return given;
    for (const auto& attribute : function.attribute_proto()) {
      if (attribute.name() == name) return &attribute;
    }
    return nullptr;
  };
  for (int i = node->attribute_size() - 1; i >= 0; --i) {
    onnx::AttributeProto* attribute = node->mutable_attribute(i);
    if (!attribute->ref_attr_name().empty()) {
      const onnx::AttributeProto* value = bound(attribute->ref_attr_name());
      if (value == nullptr) {
        node->mutable_attribute()->DeleteSubrange(i, 1);
        continue;
      }
      const std::string name = attribute->name();
      *attribute = *value;
      attribute->set_name(name);
    } else if (attribute->has_g()) {
      for (auto& child : *attribute->mutable_g()->mutable_node()) {
        BindAttributes(&child, call, function);
      }
    }
  }
}

class Builder {
 public:
  Builder(onnx::ModelProto model, const std::string& path) : model_(std::move(model)) {
    graph_.path = path;
    graph_.name = model_.graph().name();
    opsets_ = OpsetsOf(model_.opset_import());
  }

  OnnxGraph Build() {
    for (const auto& function : model_.functions()) {
      functions_[Key(function.domain(), function.name())] = &function;
    }
    onnx::GraphProto* graph = model_.mutable_graph();
    if (graph->output_size() == 0) Refuse("has no outputs, so that it computes nothing");
    CollectNames(*graph);
    ReadInitializers(graph);
    ReadInputs(*graph);
    for (auto& node : *graph->mutable_node()) {
      Add({std::move(node), 0}, opsets_, 0, &graph_.nodes);
    }
    for (const auto& output : graph->output()) graph_.outputs.push_back(output.name());
    SortNodes(&graph_);
    return std::move(graph_);
  }

 private:
  static std::string Key(const std::string& domain, const std::string& name) {
    return StrCat(DomainOf(domain), ":", name);
  }

  [[noreturn]] void Refuse(const std::string& message) const {
    Fail(ErrorCode::kDataLoss, message, {.file = graph_.path});
  }

  void CollectNames(const onnx::GraphProto& graph) {
    for (const auto& input : graph.input()) graph_.names.Add(input.name());
    for (const auto& tensor : graph.initializer()) graph_.names.Add(tensor.name());
    for (const auto& node : graph.node()) {
      for (const std::string& output : node.output()) graph_.names.Add(output);
    }
  }

  void AddConstant(const std::string& name, OnnxTensor tensor) {
    graph_.work.given += tensor.count();
    if (!graph_.constants.emplace(name, std::move(tensor)).second) {
      Refuse(StrCat("'", name, "' is produced twice; the file is damaged"));
    }
  }

  // One of a type that Crema does not read may be unused; the nodes that read it are reported.
  void ReadInitializer(const onnx::TensorProto& tensor) {
    try {
      AddConstant(tensor.name(), ReadOnnxTensor(tensor, graph_.path));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) throw;
      graph_.unreadable[tensor.name()] = error.problems()[0].message;
    }
  }

  void ReadInitializers(onnx::GraphProto* graph) {
    for (auto& tensor : *graph->mutable_initializer()) {
      ReadInitializer(tensor);
      tensor.Clear();  // its values are no longer needed
    }
    int64_t dense = 0;
    for (const auto& sparse : graph->sparse_initializer()) {
      OnnxTensor tensor = ReadOnnxSparse(sparse, graph_.path);
      dense += tensor.count();
      if (dense > kMostSparseElements) {
        Refuse(StrCat("has sparse tensors that stand for more than ", kMostSparseElements,
                      " elements"));
      }
      AddConstant(sparse.values().name(), std::move(tensor));
    }
  }

  void ReadInputs(const onnx::GraphProto& graph) {
    for (const auto& value : graph.input()) {
      if (graph_.constants.contains(value.name()) || graph_.unreadable.contains(value.name())) {
        continue;
      }
      OnnxInput input;
      input.name = value.name();
      const auto& tensor = value.type().tensor_type();
      if (value.type().has_tensor_type()) input.type = tensor.elem_type();
      input.has_shape = tensor.has_shape();
      if (tensor.shape().dim_size() > kMostOnnxAxes) {
        Refuse(StrCat("input '", input.name, "' has ", tensor.shape().dim_size(), " axes"));
      }
      for (const auto& dim : tensor.shape().dim()) {
        // Some exporters write -1 for an unknown size.
        const bool known = dim.has_dim_value() && dim.dim_value() != -1;
        if (known && dim.dim_value() < 0) {
          Refuse(StrCat("input '", input.name, "' has a dimension of ", dim.dim_value()));
        }
        input.dims.push_back(known ? dim.dim_value() : -1);
      }
      graph_.inputs.push_back(std::move(input));
    }
  }

  // Adds a node, or those of the function that it calls, to `nodes`.
  void Add(OnnxNode node, const Opsets& opsets, int depth, std::vector<OnnxNode>* nodes) {
    if (depth > 0 && ++inlined_nodes_ > kMostInlinedNodes) {
      Refuse(StrCat("has functions that become more than ", kMostInlinedNodes,
                    " nodes once they are inlined, '", node.proto.name(), "' among them"));
    }
    const auto function = functions_.find(Key(node.proto.domain(), node.proto.op_type()));
    if (function != functions_.end()) {
      Inline(node.proto, *function->second, depth, nodes);
      return;
    }
    const auto opset = opsets.find(DomainOf(node.proto.domain()));
    node.opset = opset == opsets.end() ? 1 : opset->second;
    if (IsDefaultDomain(node.proto.domain()) && opset == opsets.end()) {
      Refuse(StrCat(DescribeNode(node.proto), " is of ONNX's operators, and ",
                    depth > 0 ? "its function" : "the file", " does not say of which opset"));
    }
    if (node.opset > kNewestOpset && IsDefaultDomain(node.proto.domain())) {
      Refuse(StrCat(DescribeNode(node.proto), " is of opset ", node.opset, "; the most is ",
                    kNewestOpset));
    }
    for (auto& attribute : *node.proto.mutable_attribute()) {
      if (attribute.has_g()) InlineInside(node.opset, opsets, depth, attribute.mutable_g());
    }
    nodes->push_back(std::move(node));
  }

  // Inlines the functions that a branch or body calls. Its nodes have the opset of the node, but
  // for those of functions of another one.
  void InlineInside(int64_t opset, const Opsets& opsets, int depth, onnx::GraphProto* graph) {
    std::vector<OnnxNode> nodes;
    for (auto& node : *graph->mutable_node()) Add({std::move(node), 0}, opsets, depth, &nodes);
    graph->clear_node();
    for (OnnxNode& node : nodes) {
      onnx::NodeProto* inner = graph->add_node();
      *inner = std::move(node.proto);
      if (!IsDefaultDomain(inner->domain()) || node.opset == opset) continue;
      auto* attribute = inner->add_attribute();
      attribute->set_name(kOpsetAttribute);
      attribute->set_i(node.opset);
    }
  }

  void Inline(const onnx::NodeProto& call, const onnx::FunctionProto& function, int depth,
              std::vector<OnnxNode>* nodes) {
    if (depth >= kMostOnnxDepth) {
      Refuse(StrCat("function '", function.name(), "' calls functions more than ", kMostOnnxDepth,
                    " deep, or itself"));
    }
    inlined_bytes_ += static_cast<int64_t>(function.ByteSizeLong());
    if (inlined_bytes_ > kMostInlinedBytes) {
      Refuse(StrCat("function '", function.name(), "' and those before it become more than ",
                    kMostInlinedBytes >> 20, " MiB once they are inlined"));
    }
    std::map<std::string, std::string> renamed;
    for (int i = 0; i < function.input_size(); ++i) {
      renamed[function.input(i)] = i < call.input_size() ? call.input(i) : "";
    }
    for (int i = 0; i < function.output_size(); ++i) {
      if (i < call.output_size() && !call.output(i).empty()) {
        renamed[function.output(i)] = call.output(i);
      }
    }
    const std::string prefix = call.name().empty() ? function.name() : call.name();
    const Renaming rename = [&](const std::string& name) {
      const auto found = renamed.find(name);
      if (found != renamed.end()) return found->second;
      return renamed[name] = graph_.names.Add(StrCat(prefix, "/", name));
    };
    const Opsets opsets = OpsetsOf(function.opset_import());
    for (const onnx::NodeProto& inner : function.node()) {
      OnnxNode node{inner, 0};
      BindAttributes(&node.proto, call, function);
      RenameNode(&node.proto, rename);
      node.proto.set_name(
          StrCat(prefix, "/", inner.name().empty() ? inner.op_type() : inner.name()));
      Add(std::move(node), opsets, depth + 1, nodes);
    }
  }

  onnx::ModelProto model_;
  OnnxGraph graph_;
  Opsets opsets_;
  std::map<std::string, const onnx::FunctionProto*> functions_;
  int64_t inlined_nodes_ = 0;  // also those that functions take the place of
  int64_t inlined_bytes_ = 0;
};

// Nodes by the values that they produce, with the number of values that each still waits for.
class Sorter {
 public:
  explicit Sorter(OnnxGraph* graph) : graph_(*graph), waits_(graph->nodes.size(), 0) {}

  void Sort() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const auto& name : graph_.nodes[i].proto.output()) Produce(name, i);
    }
    for (const OnnxInput& input : graph_.inputs) {
      if (!inputs_.insert(input.name).second) Twice(input.name);
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const std::string& name : Reads(graph_.nodes[i].proto)) Wait(name, i);
    }
    for (const std::string& name : graph_.outputs) {
      if (!IsKnown(graph_.Resolve(name)) && !producers_.contains(graph_.Resolve(name))) {
        Refuse(StrCat("output '", name, "' is produced by no node"));
      }
    }
    Order();
  }

 private:
  [[noreturn]] void Refuse(const std::string& message) const {
    Fail(ErrorCode::kDataLoss, StrCat(message, "; the file is damaged"), {.file = graph_.path});
  }
  [[noreturn]] void Twice(const std::string& name) const {
    Refuse(StrCat("'", name, "' is produced twice"));
  }

  // Returns the values that a node reads, also in inner graphs.
  static std::vector<std::string> Reads(const onnx::NodeProto& node) {
    std::vector<std::string> names;
    for (const auto& name : node.input()) {
      if (!name.empty()) names.push_back(name);
    }
    for (const auto& attribute : node.attribute()) {
      if (!attribute.has_g()) continue;
      std::set<std::string> inner;
      for (const auto& input : attribute.g().input()) inner.insert(input.name());
      for (const auto& tensor : attribute.g().initializer()) inner.insert(tensor.name());
      for (const auto& child : attribute.g().node()) {
        inner.insert(child.output().begin(), child.output().end());
      }
      for (const auto& child : attribute.g().node()) {
        for (std::string& name : Reads(child)) {
          if (!inner.contains(name)) names.push_back(std::move(name));
        }
      }
      for (const auto& output : attribute.g().output()) {
        if (!inner.contains(output.name())) names.push_back(output.name());
      }
    }
    return names;
  }

  bool IsKnown(const std::string& name) const {
    return inputs_.contains(name) || graph_.constants.contains(name) ||
           graph_.unreadable.contains(name);
  }

  void Produce(const std::string& name, size_t node) {
    if (name.empty()) return;
    if (graph_.constants.contains(name) || !producers_.emplace(name, node).second) Twice(name);
  }

  void Wait(const std::string& raw, size_t node) {
    const std::string& name = graph_.Resolve(raw);
    if (IsKnown(name)) {
      if (producers_.contains(name)) Twice(name);
      return;
    }
    const auto producer = producers_.find(name);
    if (producer == producers_.end()) {
      Refuse(StrCat(DescribeNode(graph_.nodes[node].proto), " reads '", name,
                    "', which nothing produces"));
    }
    ++waits_[node];
    readers_[producer->second].push_back(node);
  }

  // Keeps the order of the file where it is one.
  void Order() {
    std::set<size_t> ready;
    for (size_t i = 0; i < waits_.size(); ++i) {
      if (waits_[i] == 0) ready.insert(i);
    }
    std::vector<OnnxNode> sorted;
    while (!ready.empty()) {
      const size_t next = *ready.begin();
      ready.erase(ready.begin());
      sorted.push_back(std::move(graph_.nodes[next]));
      for (const size_t reader : readers_[next]) {
        if (--waits_[reader] == 0) ready.insert(reader);
      }
    }
    if (sorted.size() == graph_.nodes.size()) {
      graph_.nodes = std::move(sorted);
      return;
    }
    const auto stuck = std::ranges::find_if(waits_, [](int waits) { return waits > 0; });
    const auto index = static_cast<size_t>(stuck - waits_.begin());
    Refuse(StrCat(DescribeNode(graph_.nodes[index].proto), " is in a cycle"));
  }

  OnnxGraph& graph_;
  std::map<std::string, size_t> producers_;
  std::set<std::string> inputs_;
  std::map<size_t, std::vector<size_t>> readers_;
  std::vector<int> waits_;
};

}  // namespace

std::string UniqueNames::Add(const std::string& wanted, const UniqueNames* other) {
  const std::string base = wanted.empty() ? "unnamed" : wanted;
  const auto add = [&](const std::string& name) {
    return (other == nullptr || !other->used_.contains(name)) && used_.insert(name).second;
  };
  if (add(base)) return base;
  int& next = next_.try_emplace(base, 2).first->second;
  while (true) {
    std::string name = StrCat(base, "_", next++);
    if (add(name)) return name;
  }
}

const std::string& OnnxGraph::Resolve(const std::string& value) const {
  const std::string* resolved = &value;
  for (auto it = aliases.find(*resolved); it != aliases.end(); it = aliases.find(*resolved)) {
    resolved = &it->second;
  }
  return *resolved;
}

void OnnxGraph::Add(const std::string& constant, OnnxTensor tensor) {
  constants[constant] = std::move(tensor);
  added.push_back(constant);
}

OnnxGraph MakeOnnxGraph(onnx::ModelProto model, const std::string& path) {
  return Builder(std::move(model), path).Build();
}

void SortNodes(OnnxGraph* graph) { Sorter(graph).Sort(); }

InlinedGraph InlineGraph(const OnnxNode& node, const onnx::GraphProto& inner,
                         const std::vector<std::string>& inputs, OnnxGraph* graph) {
  const std::string prefix = node.proto.name().empty() ? node.proto.op_type() : node.proto.name();
  std::map<std::string, std::string> renamed;
  const auto define = [&](const std::string& name) {
    if (!name.empty()) renamed[name] = graph->names.Add(StrCat(prefix, "/", name));
  };
  for (size_t i = 0; i < inputs.size() && static_cast<int>(i) < inner.input_size(); ++i) {
    renamed[inner.input(static_cast<int>(i)).name()] = inputs[i];
  }
  for (const auto& tensor : inner.initializer()) {
    define(tensor.name());
    graph->Add(renamed[tensor.name()], ReadOnnxTensor(tensor, graph->path));
  }
  for (const auto& child : inner.node()) {
    for (const auto& name : child.output()) define(name);
  }
  const Renaming rename = [&](const std::string& name) {
    const auto found = renamed.find(name);
    return found == renamed.end() ? name : found->second;
  };
  InlinedGraph result;
  for (const auto& child : inner.node()) {
    const auto* opset = FindAttribute(child, kOpsetAttribute);
    OnnxNode copy{child, opset == nullptr ? node.opset : opset->i()};
    RenameNode(&copy.proto, rename);
    result.nodes.push_back(std::move(copy));
  }
  for (const auto& output : inner.output()) result.outputs.push_back(rename(output.name()));
  return result;
}

bool IsDefaultDomain(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

std::string DescribeNode(const onnx::NodeProto& node) {
  const std::string op =
      IsDefaultDomain(node.domain()) ? node.op_type() : StrCat(node.domain(), ".", node.op_type());
  if (!node.name().empty()) return StrCat("node '", node.name(), "' (", op, ")");
  return StrCat("node of '", node.output_size() > 0 ? node.output(0) : "", "' (", op, ")");
}

const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& node, std::string_view name) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

}  // namespace crema
