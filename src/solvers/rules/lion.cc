// Lion; see LionRule.
#include "solvers/rules/field_checks.h"
#include "solvers/rules/rules.h"
#include "solvers/rules/steps.h"
#include "solvers/rules/update_pass.h"

namespace crema {
namespace {

CREMA_MULTIVERSION bool Run(const LionStep<float>& step, const Piece<float, 1>& piece) {
  return RunPiece(step, piece);
}
bool Run(const LionStep<double>& step, const Piece<double, 1>& piece) {
  return RunPiece(step, piece);
}

int64_t Apply(const UpdateArgs& args) {
  return UpdateByStep<LionStep>(
      args, [](const auto& step, const auto& piece) { return Run(step, piece); });
}

std::vector<Problem> Check(const SolverParameter& param) {
  FieldChecks checks;
  checks.BelowOne("momentum", param.momentum());
  checks.BelowOne("momentum2", param.momentum2());
  return checks.Take();
}

}  // namespace

UpdateRule LionRule() {
  return {.name = "Lion",
          .histories = 1,
          .default_momentum = 0.9,
          .takes_l1 = false,
          .reads = {"momentum2"},
          .check = Check,
          .apply = Apply};
}

}  // namespace crema
