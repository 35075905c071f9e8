#include "solvers/freeze.h"

#include <algorithm>
#include <regex>
#include <set>

#include "core/strings.h"

namespace crema {
namespace {

std::vector<std::string> LearningLayers(const Plan& plan) {
  std::vector<std::string> names;
  for (const PlannedLayer& layer : plan.layers) {
    if (!layer.learned.empty()) names.push_back(layer.name());
  }
  return names;
}

// Of the blobs that these layers share with others.
std::set<std::string> SharedNames(const std::set<std::string>& layers, const Plan& plan) {
  std::set<std::string> names;
  for (const LearnedSlot& slot : plan.learned) {
    const std::string& layer = plan.layers[static_cast<size_t>(slot.layer)].name();
    if (!slot.share_name.empty() && layers.contains(layer)) names.insert(slot.share_name);
  }
  return names;
}

void HoldStill(ParamSpec* spec) {
  spec->set_lr_mult(0);
  spec->set_decay_mult(0);
}

}  // namespace

std::vector<Problem> CheckFreeze(const SolverParameter& param) {
  std::vector<Problem> problems;
  for (int i = 0; i < param.freeze_size(); ++i) {
    try {
      const std::regex pattern(param.freeze(i));
    } catch (const std::regex_error& error) {
      Where where;
      where.field = StrCat("freeze[", i, "]");
      problems.push_back({ErrorCode::kInvalidArgument, where,
                          StrCat("'", param.freeze(i),
                                 "' is not a regular expression (ECMAScript): ", error.what())});
    }
  }
  return problems;
}

std::vector<std::string> FrozenLayers(const SolverFile& solver, const Plan& plan) {
  const std::vector<std::string> candidates = LearningLayers(plan);
  std::set<std::string> frozen;
  std::vector<Problem> problems;
  for (int i = 0; i < solver.solver.freeze_size(); ++i) {
    const std::string& text = solver.solver.freeze(i);
    const std::regex pattern(text);
    bool matched = false;
    for (const std::string& name : candidates) {
      if (!std::regex_match(name, pattern)) continue;
      matched = true;
      frozen.insert(name);
    }
    if (matched) continue;
    problems.push_back(
        {ErrorCode::kInvalidArgument, solver.source.Locate(StrCat("freeze[", i, "]")),
         StrCat("freeze: '", text, "' is the whole name of no layer with learned blobs",
                DidYouMean(text, candidates), "; they are: ", Join(candidates, " "))});
  }
  if (!problems.empty()) throw Error(std::move(problems));
  std::vector<std::string> layers;
  std::ranges::copy_if(candidates, std::back_inserter(layers),
                       [&](const std::string& name) { return frozen.contains(name); });
  return layers;
}

void Freeze(const std::vector<std::string>& layers, const Plan& plan, NetParameter* net) {
  const std::set<std::string> frozen(layers.begin(), layers.end());
  const std::set<std::string> shared = SharedNames(frozen, plan);
  for (LayerParameter& layer : *net->mutable_layer()) {
    // Layers of other phases may have the name of one that is trained.
    const auto planned = std::ranges::find(plan.layers, layer.name(), &PlannedLayer::name);
    if (planned != plan.layers.end() && frozen.contains(layer.name())) {
      while (layer.param_size() < static_cast<int>(planned->learned.size())) layer.add_param();
      for (ParamSpec& spec : *layer.mutable_param()) HoldStill(&spec);
      if (layer.type() == "BatchNorm") layer.mutable_batch_norm_param()->set_use_global_stats(true);
    }
    for (ParamSpec& spec : *layer.mutable_param()) {
      if (shared.contains(spec.name())) HoldStill(&spec);
    }
  }
}

}  // namespace crema
