// Selects the layers of a NetState by the rules of `include` and `exclude`, as Caffe does.
#include <algorithm>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/graph.h"

namespace crema {
namespace {

bool HasStage(const NetState& state, const std::string& stage) {
  return std::ranges::find(state.stage(), stage) != state.stage().end();
}

bool IsMet(const NetStateRule& rule, const NetState& state) {
  if (rule.has_phase() && rule.phase() != state.phase()) return false;
  if (rule.has_min_level() && state.level() < rule.min_level()) return false;
  if (rule.has_max_level() && state.level() > rule.max_level()) return false;
  const auto has = [&](const std::string& stage) { return HasStage(state, stage); };
  return std::ranges::all_of(rule.stage(), has) && std::ranges::none_of(rule.not_stage(), has);
}

}  // namespace

bool IsIncluded(const LayerParameter& layer, const NetState& state) {
  if (layer.include_size() > 0 && layer.exclude_size() > 0) {
    Where where{.layer = layer.name()};
    where.field = "exclude";
    Fail(ErrorCode::kInvalidArgument,
         "has both include and exclude rules; keep the include rules or the exclude rules",
         std::move(where));
  }
  const auto met = [&](const NetStateRule& rule) { return IsMet(rule, state); };
  if (layer.include_size() > 0) return std::ranges::any_of(layer.include(), met);
  return std::ranges::none_of(layer.exclude(), met);
}

}  // namespace crema
