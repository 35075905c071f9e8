#include "plan/memory/recompute.h"

#include <algorithm>
#include <utility>

#include "core/exec_context.h"
#include "core/strings.h"
#include "crema.pb.h"

namespace crema {
namespace {

bool At(const std::vector<bool>& flags, size_t i) { return i < flags.size() && flags[i]; }

bool IsView(const PlannedLayer& layer) { return layer.info.view || layer.info.share; }

}  // namespace

Timeline::Timeline(const Plan& plan)
    : plan_(plan),
      backward_(plan.layers.size(), -1),
      again_(plan.layers.size(), -1),
      made_by_(plan.values.size(), -1),
      before_(plan.layers.size()),
      collected_(plan.layers.size(), false) {
  for (size_t n = 0; n < plan.layers.size(); ++n) {
    const PlannedLayer& layer = plan.layers[n];
    const int maker =
        IsView(layer) ? made_by_[static_cast<size_t>(layer.inputs[0])] : static_cast<int>(n);
    for (int v : layer.outputs) made_by_[static_cast<size_t>(v)] = maker;
  }
  end_ = static_cast<int>(plan.layers.size());
  for (size_t n = plan.layers.size(); n-- > 0;) Schedule(static_cast<int>(n));
}

int Timeline::MadeAgain(int value) const { return Again(made_by_[static_cast<size_t>(value)]); }

void Timeline::Schedule(int layer) {
  CollectFor(layer);
  std::vector<int>& before = before_[static_cast<size_t>(layer)];
  std::ranges::sort(before);
  for (int n : before) again_[static_cast<size_t>(n)] = end_++;
  backward_[static_cast<size_t>(layer)] = end_++;
}

void Timeline::CollectFor(int n) {
  const PlannedLayer& layer = plan_.layers[static_cast<size_t>(n)];
  if (!layer.backward || IsView(layer)) return;
  for (size_t i = 0; i < layer.inputs.size(); ++i) {
    if (At(layer.info.backward_reads_input, i)) Need(layer.inputs[i]);
  }
  for (size_t o = 0; o < layer.outputs.size(); ++o) {
    const bool saves = o == 0 && !layer.info.saved.empty();
    if (saves || At(layer.info.backward_reads_output, o)) Need(layer.outputs[o]);
  }
  while (!needed_.empty()) {
    const int maker = made_by_[static_cast<size_t>(needed_.back())];
    needed_.pop_back();
    const PlannedLayer& source = plan_.layers[static_cast<size_t>(maker)];
    if (!source.recompute || collected_[static_cast<size_t>(maker)]) continue;
    collected_[static_cast<size_t>(maker)] = true;
    before_[static_cast<size_t>(n)].push_back(maker);
    for (int v : source.inputs) Need(v);
  }
}

void Timeline::Need(int value) { needed_.push_back(value); }

std::string WhyNotAgain(const Plan& plan, const PlannedLayer& layer) {
  if (layer.inputs.empty()) return "it reads data, and the next time it would read other data";
  if (layer.outputs.empty()) return "it has no outputs";
  if (layer.info.dynamic_outputs) return "how large its outputs are shows only while it runs";
  // Includes blobs that are not running statistics of this layer but of another: that layer changes
  // them.
  const auto shared = [&](int s) {
    const int owner = plan.parameters[static_cast<size_t>(s)].owner;
    const auto same = [&](const ParameterSlot& slot) { return slot.owner == owner; };
    const auto statistic = [&](const ParameterSlot& slot) { return same(slot) && slot.statistic; };
    return std::ranges::count_if(plan.parameters, same) > 1 &&
           std::ranges::any_of(plan.parameters, statistic);
  };
  if (std::ranges::any_of(layer.parameters, shared)) {
    return "it shares statistics with another layer, which changes them meanwhile";
  }
  if (layer.layer->MakeState(ExecContext(1), layer.layer->param().phase()) != nullptr) {
    return "it has a state that each run changes";
  }
  return "";
}

void MarkRecompute(const Graph& graph, Plan* plan) {
  std::vector<Problem> problems;
  for (size_t n = 0; n < plan->layers.size(); ++n) {
    PlannedLayer& layer = plan->layers[n];
    if (!layer.layer->param().recompute()) continue;
    if (std::string why = WhyNotAgain(*plan, layer); !why.empty()) {
      problems.push_back(
          {ErrorCode::kInvalidArgument, graph.Locate(graph.nodes[n], "recompute"),
           StrCat("a layer of type ", layer.type->name, " cannot run forward a second time: ", why,
                  "; remove recompute")});
      continue;
    }
    layer.recompute = plan->options.backward && plan->options.optimize && !IsView(layer);
  }
  if (!problems.empty()) throw Error(std::move(problems));
}

}  // namespace crema
