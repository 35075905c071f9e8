#include "plan/passes/keep_integers_f32.h"

#include <algorithm>

#include "crema.pb.h"
#include "plan/precision.h"

namespace crema {
namespace {

bool IsHalf(MemoryFormat format) {
  return format.layout != Layout::kBlocked &&
         (format.type == DType::kBF16 || format.type == DType::kF16);
}

class Mover {
 public:
  Mover(const Graph& graph, const std::vector<LayerInfo>& infos, std::vector<NodeFormats>* formats)
      : graph_(graph), infos_(infos), formats_(*formats) {}

  void Run() {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t n = 0; n < formats_.size(); ++n) {
        if (!IsHalf(formats_[n].in) || !Moves(n) || ReadsHalves(n) || GoesToHalves(n)) continue;
        formats_[n] = {};
        changed = true;
      }
    }
  }

 private:
  const Value& ValueOf(int v) const { return graph_.values[static_cast<size_t>(v)]; }
  bool Moves(size_t n) const { return infos_[n].moves_only; }

  bool ReadsHalves(size_t n) const {
    return std::ranges::all_of(graph_.nodes[n].inputs, [&](int v) {
      return formats_[static_cast<size_t>(ValueOf(v).producer)].out.type == formats_[n].in.type;
    });
  }

  bool GoesToHalves(size_t n) const {
    return std::ranges::all_of(graph_.nodes[n].outputs, [&](int v) {
      return !IsPlainForUsers(ValueOf(v)) &&
             std::ranges::all_of(ValueOf(v).readers, [&](int reader) {
               const auto r = static_cast<size_t>(reader);
               return formats_[r].in.type == formats_[n].out.type && !Moves(r);
             });
    });
  }

  const Graph& graph_;
  const std::vector<LayerInfo>& infos_;
  std::vector<NodeFormats>& formats_;
};

}  // namespace

void KeepIntegersF32(const Graph& graph, const std::vector<LayerInfo>& infos,
                     std::vector<NodeFormats>* formats) {
  Mover(graph, infos, formats).Run();
}

bool KeepsInt8Range(const Graph& graph, const Node& node) {
  const Int8Range* range = Int8RangeOf(graph, node.inputs[0]);
  const auto same = [&](int v) {
    const Int8Range* other = Int8RangeOf(graph, v);
    return range != nullptr && other != nullptr && other->max() == range->max() &&
           other->non_negative() == range->non_negative();
  };
  return std::ranges::all_of(node.inputs, same) && std::ranges::all_of(node.outputs, same);
}

}  // namespace crema
