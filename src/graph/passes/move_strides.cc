// See MoveStrides in passes.h.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "graph/passes/passes.h"
#include "graph/precision.h"

namespace crema {
namespace {

bool IsConvolution(const Node& node) {
  const LayerParameter& p = node.layer->param();
  return p.type() == "Convolution" && node.inputs.size() == 1 && p.convolution_param().axis() == 1;
}

// What a convolution reads of its input: every n-th place of each spatial axis, and nothing
// between. 1: all, or not so simple.
uint32_t PlacesApart(const Node& node) {
  if (!IsConvolution(node)) return 1;
  const ConvolutionParameter& p = node.layer->param().convolution_param();
  const auto all = [](const auto& values, uint32_t wanted) {
    return std::ranges::all_of(values, [&](uint32_t value) { return value == wanted; });
  };
  const bool one_pixel = p.has_kernel_h() ? p.kernel_h() == 1 && p.kernel_w() == 1
                                          : p.kernel_size_size() > 0 && all(p.kernel_size(), 1);
  if (!one_pixel || !all(p.pad(), 0) || p.pad_h() != 0 || p.pad_w() != 0) return 1;
  if (p.has_stride_h()) return p.stride_h() == p.stride_w() ? p.stride_h() : 1;
  return p.stride_size() > 0 && all(p.stride(), p.stride(0)) ? p.stride(0) : 1;
}

void SetStrides(ConvolutionParameter* p, uint32_t (*changed)(uint32_t, uint32_t), uint32_t apart) {
  if (p->has_stride_h()) {
    p->set_stride_h(changed(p->stride_h(), apart));
    p->set_stride_w(changed(p->stride_w(), apart));
    return;
  }
  if (p->stride_size() == 0) p->add_stride(1);
  for (uint32_t& stride : *p->mutable_stride()) stride = changed(stride, apart);
}

bool IsPerChannel(int32_t axis, int32_t num_axes) { return axis == 1 && num_axes == 1; }

// Whether an element of its output depends on the same place of each input only, in TEST.
bool WorksPlaceByPlace(const Node& node) {
  const LayerParameter& p = node.layer->param();
  if (node.outputs.size() != 1 || p.phase() != TEST) return false;
  const std::string& type = p.type();
  if (type == "BatchNorm") {
    return !p.batch_norm_param().has_use_global_stats() || p.batch_norm_param().use_global_stats();
  }
  if (type == "Scale") {
    return node.inputs.size() == 1 &&
           IsPerChannel(p.scale_param().axis(), p.scale_param().num_axes());
  }
  if (type == "Bias") {
    return node.inputs.size() == 1 &&
           IsPerChannel(p.bias_param().axis(), p.bias_param().num_axes());
  }
  return type == "ReLU" || type == "PReLU" || type == "ELU" || type == "Sigmoid" ||
         type == "TanH" || type == "Dropout" || type == "Eltwise";
}

class Mover {
 public:
  Mover(Graph* graph, const Registry& registry) : graph_(*graph), registry_(registry) {}

  // From the last node on, as a convolution that takes a stride may pass it on.
  void Run() {
    for (size_t n = graph_.nodes.size(); n-- > 0;) {
      for (size_t o = 0; o < graph_.nodes[n].outputs.size(); ++o) {
        Try(graph_.nodes[n].outputs[o]);
      }
    }
    InsertPicks();
  }

 private:
  // What is to be computed at fewer places, and where that begins.
  struct Change {
    uint32_t apart = 1;
    std::vector<int> values;
    std::vector<int> convolutions;            // nodes that make them
    std::vector<std::pair<int, size_t>> cut;  // input of a node that stays whole
  };

  Node& NodeAt(int n) { return graph_.nodes[static_cast<size_t>(n)]; }
  Value& ValueAt(int v) { return graph_.values[static_cast<size_t>(v)]; }

  uint32_t PlacesReadOf(const Value& value) {
    if (value.readers.empty() || value.loss_weight != 0) return 1;
    const uint32_t apart = PlacesApart(NodeAt(value.readers[0]));
    const bool same = std::ranges::all_of(
        value.readers, [&](int reader) { return PlacesApart(NodeAt(reader)) == apart; });
    return same ? apart : 1;
  }

  void Try(int v) {
    Change change;
    change.apart = PlacesReadOf(ValueAt(v));
    if (change.apart == 1) return;
    change.values.push_back(v);
    if (!Follow(&change) || change.convolutions.empty()) return;
    for (int n : ValueAt(v).readers) {
      Remake(
          n, [](uint32_t stride, uint32_t by) { return stride / by; }, change.apart);
    }
    for (int n : change.convolutions) {
      Remake(
          n, [](uint32_t stride, uint32_t by) { return stride * by; }, change.apart);
    }
    for (const auto& [n, input] : change.cut) picks_.push_back({n, input, change.apart});
  }

  // Goes back from what is read at few places to convolutions, through layers that work place by
  // place. Says no where the first one is of another kind: nothing would be saved.
  bool Follow(Change* change) {
    for (size_t i = 0; i < change->values.size(); ++i) {
      const int n = ValueAt(change->values[i]).producer;
      const Node& node = NodeAt(n);
      if (IsConvolution(node)) {
        change->convolutions.push_back(n);
        continue;
      }
      if (!WorksPlaceByPlace(node)) return false;
      for (size_t input = 0; input < node.inputs.size(); ++input) {
        const int v = node.inputs[input];
        if (std::ranges::find(change->values, v) != change->values.end()) continue;
        if (IsReadOnlyBy(v, n) && CanBeMadeApart(v)) {
          change->values.push_back(v);
        } else {
          change->cut.emplace_back(n, input);
        }
      }
    }
    return true;
  }

  bool IsReadOnlyBy(int v, int reader) {
    const Value& value = ValueAt(v);
    return value.loss_weight == 0 &&
           std::ranges::all_of(value.readers, [&](int n) { return n == reader; });
  }

  bool CanBeMadeApart(int v) {
    const Node& node = NodeAt(ValueAt(v).producer);
    return WorksPlaceByPlace(node) || IsConvolution(node);
  }

  void Remake(int n, uint32_t (*changed)(uint32_t, uint32_t), uint32_t apart) {
    Node& node = NodeAt(n);
    LayerParameter param = node.layer->param();
    SetStrides(param.mutable_convolution_param(), changed, apart);
    node.layer = node.type->make(param);
  }

  // That no blob or layer of the user's has.
  std::string FreeName(std::string name) const {
    const auto is_taken = [&] {
      return std::ranges::find(graph_.values, name, &Value::name) != graph_.values.end() ||
             std::ranges::find(graph_.nodes, name, &Node::name) != graph_.nodes.end();
    };
    while (is_taken()) name += "_";
    return name;
  }

  // A mean of one place: what is there, NaN too.
  Node MakePick(int v, int reader, uint32_t apart) {
    const Value value = ValueAt(v);
    LayerParameter param;
    param.set_type("Pooling");
    param.set_name(FreeName(StrCat(value.name, "_for_", NodeAt(reader).name())));
    param.set_phase(graph_.state.phase());
    const LayerParameter& wants = NodeAt(reader).layer->param();
    if (wants.has_precision()) param.set_precision(wants.precision());
    param.add_bottom(value.name);
    param.add_top(param.name());
    PoolingParameter& pool = *param.mutable_pooling_param();
    pool.set_pool(PoolingParameter::AVE);
    pool.set_kernel_size(1);
    pool.set_stride(apart);
    pool.set_round_mode(PoolingParameter::FLOOR);
    if (const Int8Range* range = Int8RangeOf(graph_, v)) {
      *param.mutable_int8()->add_bottom() = *range;
      *param.mutable_int8()->add_top() = *range;
    }
    Node node;
    node.type = registry_.Find("Pooling");
    CREMA_CHECK(node.type != nullptr);
    node.layer = node.type->make(param);
    node.inputs = {v};
    node.outputs = {static_cast<int>(graph_.values.size())};
    graph_.values.emplace_back().name = param.name();
    return node;
  }

  // Behind what they pick from, so that what is added to it last can add it.
  void InsertPicks() {
    if (picks_.empty()) return;
    std::vector<Node> nodes;
    const size_t count = graph_.nodes.size();
    for (size_t n = 0; n < count; ++n) {
      nodes.push_back(graph_.nodes[n]);
      for (const Pick& pick : picks_) {
        int& input = NodeAt(pick.node).inputs[pick.input];
        if (ValueAt(input).producer != static_cast<int>(n)) continue;
        nodes.push_back(MakePick(input, pick.node, pick.apart));
        input = nodes.back().outputs[0];
      }
    }
    graph_.nodes = std::move(nodes);
    graph_.Reindex();
  }

  struct Pick {
    int node = -1;
    size_t input = 0;
    uint32_t apart = 1;
  };

  Graph& graph_;
  const Registry& registry_;
  std::vector<Pick> picks_;
};

}  // namespace

void MoveStrides(Graph* graph, const Registry& registry) { Mover(graph, registry).Run(); }

}  // namespace crema
