// Planning of the training net beyond MakePlan; train and check share it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "graph/registry.h"
#include "plan/plan.h"
#include "solvers/solver_config.h"

namespace crema {

// Adds the warnings of the text and of planning it. Throws Error with all problems of the net.
std::shared_ptr<const Plan> PlanNetOfRun(const NetOfRun& net, const Registry& registry,
                                         const PlanOptions& options,
                                         std::vector<Problem>* warnings);

struct TrainPlan {
  std::shared_ptr<const Plan> plan;
  std::vector<std::string> frozen;  // layers that `freeze` names, in order
};

// Writes `freeze` into the text of the training net and plans it again; returns `plan`, that of the
// original text, if nothing is frozen. Throws as FrozenLayers does.
TrainPlan HoldFrozenLayers(const SolverFile& solver, std::shared_ptr<const Plan> plan,
                           const Registry& registry, NetOfRun* train);

// Returns warnings about probable mistakes.
std::vector<Problem> WarnAboutTraining(const Plan& plan);

}  // namespace crema
