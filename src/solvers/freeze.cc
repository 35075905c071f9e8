#include "solvers/freeze.h"

#include <re2/re2.h>

#include <algorithm>
#include <set>

#include "core/strings.h"
#include "crema.pb.h"

namespace crema {
namespace {

std::vector<std::string> LearningLayers(const Plan& plan) {
  std::vector<std::string> names;
  for (const PlannedLayer& layer : plan.layers) {
    if (!layer.parameters.empty()) names.push_back(layer.name());
  }
  return names;
}

// Returns the names of the parameters that these layers share with others.
std::set<std::string> SharedNames(const std::set<std::string>& layers, const Plan& plan) {
  std::set<std::string> names;
  for (const ParameterSlot& slot : plan.parameters) {
    const std::string& layer = plan.layers[static_cast<size_t>(slot.layer)].name();
    if (!slot.share_name.empty() && layers.contains(layer)) names.insert(slot.share_name);
  }
  return names;
}

constexpr size_t kLongestPattern = 1000;

// Matching takes time and memory linear in the length of a name, for any pattern.
RE2::Options Quiet() {
  RE2::Options options;
  options.set_log_errors(false);
  return options;
}

void HoldStill(ParamSpec* spec) {
  spec->set_lr_mult(0);
  spec->set_decay_mult(0);
}

}  // namespace

std::vector<Problem> CheckFreeze(const SolverParameter& param) {
  std::vector<Problem> problems;
  for (int i = 0; i < param.freeze_size(); ++i) {
    Where where;
    where.field = StrCat("freeze[", i, "]");
    if (param.freeze(i).size() > kLongestPattern) {
      problems.push_back({ErrorCode::kInvalidArgument, where,
                          StrCat("the pattern has ", param.freeze(i).size(),
                                 " characters; write several of up to ", kLongestPattern)});
      continue;
    }
    const RE2 pattern(param.freeze(i), Quiet());
    if (pattern.ok()) continue;
    problems.push_back({ErrorCode::kInvalidArgument, where,
                        StrCat("'", param.freeze(i),
                               "' is not a regular expression in RE2 syntax, which has neither "
                               "backreferences nor lookarounds: ",
                               pattern.error())});
  }
  return problems;
}

std::vector<std::string> FrozenLayers(const SolverFile& solver, const Plan& plan) {
  const std::vector<std::string> candidates = LearningLayers(plan);
  std::set<std::string> frozen;
  std::vector<Problem> problems;
  for (int i = 0; i < solver.solver.freeze_size(); ++i) {
    const std::string& text = solver.solver.freeze(i);
    const RE2 pattern(text, Quiet());
    bool matched = false;
    for (const std::string& name : candidates) {
      if (!RE2::FullMatch(name, pattern)) continue;
      matched = true;
      frozen.insert(name);
    }
    if (matched) continue;
    problems.push_back(
        {ErrorCode::kInvalidArgument, solver.source.Locate(StrCat("freeze[", i, "]")),
         StrCat("freeze: '", text, "' is not the whole name of a layer with parameter blobs",
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
    // Layers of other phases may have the name of a trained layer.
    const auto planned = std::ranges::find(plan.layers, layer.name(), &PlannedLayer::name);
    if (planned != plan.layers.end() && frozen.contains(layer.name())) {
      while (layer.param_size() < static_cast<int>(planned->parameters.size())) layer.add_param();
      for (ParamSpec& spec : *layer.mutable_param()) HoldStill(&spec);
      if (layer.type() == "BatchNorm") layer.mutable_batch_norm_param()->set_use_global_stats(true);
    }
    for (ParamSpec& spec : *layer.mutable_param()) {
      if (shared.contains(spec.name())) HoldStill(&spec);
    }
  }
}

}  // namespace crema
