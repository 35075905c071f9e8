// See MoveStrides in passes.h.
#include <algorithm>
#include <limits>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/passes/passes.h"
#include "plan/precision.h"

namespace crema {
namespace {

bool IsConvolution(const Node& node) {
  const LayerParameter& p = node.layer->param();
  return p.type() == "Convolution" && node.inputs.size() == 1 && p.convolution_param().axis() == 1;
}

// Returns n if a convolution reads every n-th place of each spatial axis of its input, and nothing
// between. 1: it reads all, or is not so simple.
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

uint32_t LargestStride(const Node& node) {
  const ConvolutionParameter& p = node.layer->param().convolution_param();
  uint32_t largest = std::max({uint32_t{1}, p.stride_h(), p.stride_w()});
  for (const uint32_t stride : p.stride()) largest = std::max(largest, stride);
  return largest;
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

// Returns true if an element of its output depends on the same place of each input only, in TEST.
bool WorksPlaceByPlace(const Node& node, const LayerInfo& info) {
  return node.outputs.size() == 1 && node.layer->param().phase() == TEST &&
         info.reach >= Reach::kPlace && info.shared_inputs.empty();
}

class StrideMover {
 public:
  StrideMover(Graph* graph, const Registry& registry, const std::vector<LayerInfo>& infos)
      : graph_(*graph),
        registry_(registry),
        infos_(infos),
        met_(graph->values.size(), false),
        picks_(graph->nodes.size()) {}

  // Starts from the last node, as a convolution that takes a stride may pass it on.
  void Run() {
    for (size_t n = graph_.nodes.size(); n-- > 0;) {
      for (const int v : graph_.nodes[n].outputs) Try(v);
    }
    InsertPicks();
  }

 private:
  // The values to compute at fewer places, and where that begins.
  struct Change {
    uint32_t apart = 1;
    std::vector<int> values;
    std::vector<int> convolutions;            // nodes that make them
    std::vector<std::pair<int, size_t>> cut;  // input of a node that stays whole
  };

  Node& NodeAt(int n) { return graph_.nodes[static_cast<size_t>(n)]; }
  Value& ValueAt(int v) { return graph_.values[static_cast<size_t>(v)]; }
  const LayerInfo& InfoOf(int n) const { return infos_[static_cast<size_t>(n)]; }

  uint32_t PlacesReadOf(const Value& value) {
    if (value.readers.empty() || value.loss_weight != 0) return 1;
    const LayerInfo& info = InfoOf(value.producer);
    if (info.outputs[static_cast<size_t>(value.output)].shape.axes() < 3) return 1;
    const uint32_t apart = PlacesApart(NodeAt(value.readers[0]));
    const bool same = std::ranges::all_of(
        value.readers, [&](int reader) { return PlacesApart(NodeAt(reader)) == apart; });
    return same ? apart : 1;
  }

  void Try(int v) {
    Change change;
    change.apart = PlacesReadOf(ValueAt(v));
    if (change.apart == 1) return;
    Meet(v, &change);
    const bool moves = Follow(&change) && CanTake(change);
    for (int met : change.values) met_[static_cast<size_t>(met)] = false;
    if (!moves) return;
    for (int n : ValueAt(v).readers) {
      Remake(
          n, [](uint32_t stride, uint32_t by) { return stride / by; }, change.apart);
    }
    for (int n : change.convolutions) {
      Remake(
          n, [](uint32_t stride, uint32_t by) { return stride * by; }, change.apart);
    }
    for (const auto& [n, input] : change.cut) {
      const int v_cut = NodeAt(n).inputs[input];
      picks_[static_cast<size_t>(ValueAt(v_cut).producer)].push_back({n, input, change.apart});
    }
  }

  void Meet(int v, Change* change) {
    met_[static_cast<size_t>(v)] = true;
    change->values.push_back(v);
  }

  bool CanTake(const Change& change) {
    constexpr uint64_t kMost = std::numeric_limits<int32_t>::max();
    return !change.convolutions.empty() && std::ranges::all_of(change.convolutions, [&](int n) {
      return uint64_t{LargestStride(NodeAt(n))} * change.apart <= kMost;
    });
  }

  // Goes back from values read at few places to convolutions, through layers that work place by
  // place. Returns false if the first layer is of another kind, as nothing would be saved.
  bool Follow(Change* change) {
    for (size_t i = 0; i < change->values.size(); ++i) {
      const int n = ValueAt(change->values[i]).producer;
      const Node& node = NodeAt(n);
      if (IsConvolution(node)) {
        change->convolutions.push_back(n);
        continue;
      }
      if (!WorksPlaceByPlace(node, InfoOf(n))) return false;
      for (size_t input = 0; input < node.inputs.size(); ++input) {
        const int v = node.inputs[input];
        if (met_[static_cast<size_t>(v)]) continue;
        if (IsReadOnlyBy(v, n) && CanBeMadeApart(v)) {
          Meet(v, change);
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
    const int n = ValueAt(v).producer;
    return WorksPlaceByPlace(NodeAt(n), InfoOf(n)) || IsConvolution(NodeAt(n));
  }

  void Remake(int n, uint32_t (*changed)(uint32_t, uint32_t), uint32_t apart) {
    Node& node = NodeAt(n);
    LayerParameter param = node.layer->param();
    SetStrides(param.mutable_convolution_param(), changed, apart);
    node.layer = node.type->make(param);
  }

  // Returns a name that no blob or layer of the user has.
  std::string FreeName(std::string name) {
    while (!names_.insert(name).second) name += "_";
    return name;
  }

  // Returns a mean of one place, which is the value there, NaN too.
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

  // Inserts each pick after the node whose output it reads, so that the layer that adds to this
  // output last can fuse the addition.
  void InsertPicks() {
    if (std::ranges::all_of(picks_, &std::vector<Pick>::empty)) return;
    for (const Value& value : graph_.values) names_.insert(value.name);
    for (const Node& node : graph_.nodes) names_.insert(node.name());
    std::vector<Node> nodes;
    const size_t count = graph_.nodes.size();
    for (size_t n = 0; n < count; ++n) {
      nodes.push_back(graph_.nodes[n]);
      for (const Pick& pick : picks_[n]) {
        int& input = NodeAt(pick.node).inputs[pick.input];
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
  const std::vector<LayerInfo>& infos_;
  std::vector<bool> met_;                 // by value, in the change that is searched for
  std::vector<std::vector<Pick>> picks_;  // by the node whose output is picked from
  std::unordered_set<std::string> names_;
};

}  // namespace

void MoveStrides(Graph* graph, const Registry& registry, const InferOptions& options) {
  const bool strided =
      std::ranges::any_of(graph->nodes, [](const Node& node) { return PlacesApart(node) > 1; });
  if (!strided) return;
  const std::vector<LayerInfo> infos = InferShapes(*graph, options);
  StrideMover(graph, registry, infos).Run();
}

}  // namespace crema
