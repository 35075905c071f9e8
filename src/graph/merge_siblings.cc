#include "graph/merge_siblings.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "graph/layer_query.h"
#include "graph/registry.h"

namespace crema {
namespace {

constexpr int kNever = std::numeric_limits<int>::max();

size_t Index(int i) { return static_cast<size_t>(i); }

// Who reads a value, under all of its names.
struct Use {
  int last_read = -1;     // layer; kNever: the user, after all of them
  int concat = -1;        // layer that would like it to lie in its output; -1: none
  bool is_first = false;  // of the inputs of that
};

// Layers that may be computed at once.
struct Group {
  int input = -1;           // value
  std::vector<int> layers;  // in the order of their channels
  int last_read = -1;       // of the outputs but that for `concat`
  int concat = -1;          // where the last of `layers` goes; -1: none goes to one
};

class Merger {
 public:
  explicit Merger(Plan* plan) : plan_(*plan), readers_(plan->values.size()) {
    for (size_t n = 0; n < plan_.layers.size(); ++n) {
      const std::vector<int>& inputs = plan_.layers[n].inputs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        readers_[Index(inputs[i])].emplace_back(static_cast<int>(n), i);
      }
    }
  }

  void Run() {
    for (size_t n = 0; n < plan_.layers.size(); ++n) {
      if (IsCandidate(plan_.layers[n])) Find(static_cast<int>(n));
    }
    for (const Group& group : groups_) {
      if (group.layers.size() > 1) Merge(group);
    }
    BookTotals(&plan_);
  }

 private:
  PlannedLayer& LayerOf(int n) { return plan_.layers[Index(n)]; }
  const BlobSpec& OutputOf(const PlannedLayer& layer) const {
    return plan_.values[Index(layer.outputs[0])].spec;
  }

  // One image of whole blocks of channels is dense, and so is each range of its channels.
  bool IsCandidate(const PlannedLayer& layer) const {
    if (layer.kernel == nullptr || !layer.kernel->merges || layer.backward || layer.recompute ||
        layer.absorbed_by >= 0 || layer.inputs.size() != 1 || layer.outputs.size() != 1) {
      return false;
    }
    const BlobSpec& output = OutputOf(layer);
    return IsBlocked(output.format) && output.shape.axes() == 4 && output.shape.count() > 0 &&
           output.shape[0] == 1 && output.shape[1] % ChannelBlock() == 0 &&
           StoredBytes(output) % 64 == 0;
  }

  // The value whose memory this one is.
  int RootOf(int v) const {
    while (true) {
      const PlannedLayer& layer = plan_.layers[Index(plan_.values[Index(v)].producer)];
      if (!layer.info.view && !layer.info.share) return v;
      if (OutputOf(layer).shape != plan_.values[Index(layer.inputs[0])].spec.shape) return v;
      v = layer.inputs[0];
    }
  }

  Use UseOf(int v) const {
    Use use;
    if (readers_[Index(v)].empty()) use.last_read = kNever;
    for (const auto& [n, input] : readers_[Index(v)]) {
      const PlannedLayer& layer = plan_.layers[Index(n)];
      use.last_read = std::max(use.last_read, n);
      if (layer.info.view || layer.info.share) {
        for (int output : layer.outputs) Add(UseOf(output), &use);
      } else if (layer.info.joins && plan_.options.passes.share_memory) {
        // It cannot lie in two of them.
        Add({.last_read = n, .concat = n, .is_first = input == 0 && use.concat < 0}, &use);
      }
    }
    return use;
  }

  static void Add(const Use& more, Use* use) {
    use->last_read = std::max(use->last_read, more.last_read);
    if (more.concat < 0) return;
    use->is_first = more.is_first && use->concat < 0;
    use->concat = more.concat;
  }

  void Find(int n) {
    const Use use = UseOf(LayerOf(n).outputs[0]);
    if (use.concat >= 0) {
      const int joined = LayerOf(use.concat).outputs[0];
      if (!use.is_first || UseOf(joined).concat >= 0) return;
    }
    const int input = RootOf(LayerOf(n).inputs[0]);
    for (Group& group : groups_) {
      if (group.input == input && Take(n, use, &group)) return;
    }
    groups_.push_back({.input = input,
                       .layers = {n},
                       .last_read = use.concat < 0 ? use.last_read : -1,
                       .concat = use.concat});
  }

  // The output of a Concat goes on behind the last range, and so all must be dead by then: a
  // session of other extents writes it anew.
  bool Take(int n, const Use& use, Group* group) {
    if (LayerOf(group->layers[0]).kernel != LayerOf(n).kernel) return false;
    if (use.concat >= 0 && group->concat >= 0) return false;
    const int last_read = std::max(group->last_read, use.concat < 0 ? use.last_read : -1);
    const int concat = std::max(group->concat, use.concat);
    if (concat >= 0 && last_read >= concat) return false;
    std::vector<int> layers = group->layers;
    layers.insert(group->concat < 0 ? layers.end() : layers.end() - 1, n);
    if (!CanMerge(layers)) return false;
    *group = {.input = group->input,
              .layers = std::move(layers),
              .last_read = last_read,
              .concat = concat};
    return true;
  }

  std::vector<SiblingLayer> SiblingsOf(const std::vector<int>& layers) {
    std::vector<SiblingLayer> siblings;
    for (int n : layers) siblings.push_back({LayerOf(n).layer.get(), LayerOf(n).absorbed_layers});
    return siblings;
  }

  bool CanMerge(const std::vector<int>& layers) {
    PlannedLayer& first = LayerOf(std::ranges::min(layers));
    first.siblings = SiblingsOf(layers);
    const bool can = WithQuery(plan_, first, 0, first.kernel->merges);
    first.siblings.clear();
    return can;
  }

  void Merge(const Group& group) {
    const int first = std::ranges::min(group.layers);
    for (int n : group.layers) {
      if (n == first) continue;
      LayerOf(n).merged_into = first;
      LayerOf(n).forward_scratch = 0;
      LayerOf(n).state_bytes = 0;
    }
    PlannedLayer& layer = LayerOf(first);
    layer.merged = group.layers;
    layer.siblings = SiblingsOf(group.layers);
    WithQuery(plan_, layer, 0, [&](const KernelQuery& query) {
      layer.forward_scratch = static_cast<int64_t>(ForwardScratchOf(layer.kernel, query));
      if (layer.kernel->state_bytes) {
        layer.state_bytes = static_cast<int64_t>(layer.kernel->state_bytes(query));
      }
      return 0;
    });
  }

  Plan& plan_;
  std::vector<std::vector<std::pair<int, size_t>>> readers_;  // by value: layer and input
  std::vector<Group> groups_;
};

}  // namespace

void MergeSiblings(Plan* plan) {
  if (!plan->options.passes.merge_siblings || plan->options.backward) return;
  Merger(plan).Run();
}

}  // namespace crema
