#include "solvers/train_plan.h"

#include <algorithm>
#include <utility>

#include "solvers/freeze.h"

namespace crema {

std::shared_ptr<const Plan> PlanNetOfRun(const NetOfRun& net, const Registry& registry,
                                         const PlanOptions& options,
                                         std::vector<Problem>* warnings) {
  const NetFile& file = net.file;
  warnings->insert(warnings->end(), file.warnings.begin(), file.warnings.end());
  return MakePlan(file.net, file.source, net.state, registry, options, warnings);
}

TrainPlan HoldFrozenLayers(const SolverFile& solver, std::shared_ptr<const Plan> plan,
                           const Registry& registry, NetOfRun* train) {
  if (solver.solver.freeze_size() == 0) return {.plan = std::move(plan), .frozen = {}};
  TrainPlan held{.plan = nullptr, .frozen = FrozenLayers(solver, *plan)};
  Freeze(held.frozen, *plan, &train->file.net);
  std::vector<Problem> reported_before;
  held.plan = PlanNetOfRun(*train, registry, plan->options, &reported_before);
  return held;
}

std::vector<Problem> WarnAboutTraining(const Plan& plan) {
  if (std::ranges::any_of(plan.layers, &PlannedLayer::backward)) return {};
  return {{ErrorCode::kInvalidArgument,
           {},
           "this net learns nothing: no parameter blob with an lr_mult contributes to a loss"}};
}

}  // namespace crema
