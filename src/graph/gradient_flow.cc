#include "graph/gradient_flow.h"

#include <algorithm>
#include <utility>

#include "core/blob_types.h"
#include "core/strings.h"
#include "crema.pb.h"

namespace crema {
namespace {

class Flow {
 public:
  Flow(const Graph& graph, const std::vector<LayerInfo>& infos) : graph_(graph), infos_(infos) {}

  GradientFlow Compute() {
    flow_ = NoGradients(graph_);
    needed_.assign(graph_.values.size(), false);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) NeedsOf(n);
    under_loss_.assign(graph_.values.size(), false);
    skipped_.assign(graph_.values.size(), false);
    for (size_t n = graph_.nodes.size(); n-- > 0;) Prune(n);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (graph_.force_backward) Force(n);
      CheckForbidden(n);
      DropIdle(n);
    }
    return std::move(flow_);
  }

 private:
  bool HoldsNumbers(int value) const {
    const Value& of = graph_.values[static_cast<size_t>(value)];
    const LayerInfo& producer = infos_[static_cast<size_t>(of.producer)];
    return IsFloatType(producer.outputs[static_cast<size_t>(of.output)].dtype);
  }

  // True for values from a source, or converted from its bytes.
  bool IsData(const Value& value) const {
    const std::vector<int>& inputs = graph_.nodes[static_cast<size_t>(value.producer)].inputs;
    return std::ranges::none_of(inputs, [this](int v) { return HoldsNumbers(v); });
  }

  bool IsForbidden(size_t n, size_t input) const {
    const std::vector<bool>& forbidden = infos_[n].gradient_forbidden;
    return (input < forbidden.size() && forbidden[input]) ||
           !HoldsNumbers(graph_.nodes[n].inputs[input]);
  }

  void NeedsOf(size_t n) {
    const Node& node = graph_.nodes[n];
    const LayerParameter& param = node.layer->param();
    GradientFlow::OfNode& of = flow_.nodes[n];
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const bool needed = needed_[static_cast<size_t>(node.inputs[i])];
      of.backward = of.backward || needed;
      of.to_input[i] =
          param.propagate_down_size() > 0 ? param.propagate_down(static_cast<int>(i)) : needed;
    }
    of.to_parameters.assign(infos_[n].parameters.size(), false);
    for (size_t i = 0; i < of.to_parameters.size(); ++i) {
      const int index = static_cast<int>(i);
      of.to_parameters[i] = !infos_[n].parameters[i].statistic &&
                            (index >= param.param_size() || param.param(index).lr_mult() != 0);
      of.backward = of.backward || of.to_parameters[i];
    }
    for (int v : node.outputs) needed_[static_cast<size_t>(v)] = of.backward;
  }

  void Prune(size_t n) {
    const Node& node = graph_.nodes[n];
    GradientFlow::OfNode& of = flow_.nodes[n];
    const auto value = [](int v) { return static_cast<size_t>(v); };
    const bool contributes = std::ranges::any_of(node.outputs, [&](int v) {
      return graph_.values[value(v)].loss_weight != 0 || under_loss_[value(v)];
    });
    const bool all_cut =
        std::ranges::all_of(node.outputs, [&](int v) { return bool{skipped_[value(v)]}; });
    if ((of.backward && all_cut) || !contributes) {
      of.backward = false;
      of.to_input.assign(of.to_input.size(), false);
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (contributes) under_loss_[value(node.inputs[i])] = true;
      if (!of.to_input[i]) skipped_[value(node.inputs[i])] = true;
    }
  }

  void Force(size_t n) {
    GradientFlow::OfNode& of = flow_.nodes[n];
    of.backward = true;
    for (size_t i = 0; i < of.to_input.size(); ++i) {
      of.to_input[i] = of.to_input[i] || !IsForbidden(n, i);
    }
    for (size_t i = 0; i < of.to_parameters.size(); ++i) {
      of.to_parameters[i] = !infos_[n].parameters[i].statistic;
    }
  }

  void CheckForbidden(size_t n) {
    const Node& node = graph_.nodes[n];
    GradientFlow::OfNode& of = flow_.nodes[n];
    for (size_t i = 0; i < of.to_input.size(); ++i) {
      if (!of.backward || !of.to_input[i] || !IsForbidden(n, i)) continue;
      const Value& value = graph_.values[static_cast<size_t>(node.inputs[i])];
      if (IsData(value) || !HoldsNumbers(node.inputs[i])) {
        of.to_input[i] = false;  // data: this gradient is unused
        continue;
      }
      Fail(ErrorCode::kInvalidArgument,
           StrCat("bottom '", value.name, "' depends on parameters, but a ",
                  node.layer->param().type(),
                  " layer has no gradient for it; cut it with propagate_down: false"),
           graph_.Locate(node, StrCat("bottom[", i, "]")));
    }
  }

  // Skips the backward of a layer that would compute nothing.
  void DropIdle(size_t n) {
    GradientFlow::OfNode& of = flow_.nodes[n];
    const auto any = [](const std::vector<bool>& flags) {
      return std::ranges::find(flags, true) != flags.end();
    };
    of.backward = of.backward && (any(of.to_input) || any(of.to_parameters));
    if (of.backward) return;
    of.to_input.assign(of.to_input.size(), false);
    of.to_parameters.assign(of.to_parameters.size(), false);
  }

  const Graph& graph_;
  const std::vector<LayerInfo>& infos_;
  GradientFlow flow_;
  std::vector<bool> needed_;      // by value: upstream wants its gradient
  std::vector<bool> under_loss_;  // by value: some loss depends on it
  std::vector<bool> skipped_;     // by value: its reader computes no gradient for it
};

}  // namespace

GradientFlow NoGradients(const Graph& graph) {
  GradientFlow flow;
  for (const Node& node : graph.nodes) {
    flow.nodes.push_back({.backward = false,
                          .to_input = std::vector<bool>(node.inputs.size(), false),
                          .to_parameters = {}});
  }
  return flow;
}

GradientFlow ComputeGradientFlow(const Graph& graph, const std::vector<LayerInfo>& infos) {
  return Flow(graph, infos).Compute();
}

}  // namespace crema
