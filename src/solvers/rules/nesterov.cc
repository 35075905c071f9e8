// Nesterov's momentum; see NesterovRule.
#include "solvers/rules/field_checks.h"
#include "solvers/rules/rules.h"
#include "solvers/rules/steps.h"
#include "solvers/rules/update_pass.h"

namespace crema {
namespace {

CREMA_MULTIVERSION bool Run(const NesterovStep<float>& step, const Piece<float, 1>& piece) {
  return RunPiece(step, piece);
}
bool Run(const NesterovStep<double>& step, const Piece<double, 1>& piece) {
  return RunPiece(step, piece);
}

int64_t Apply(const UpdateArgs& args) {
  return UpdateByStep<NesterovStep>(
      args, [](const auto& step, const auto& piece) { return Run(step, piece); });
}

std::vector<Problem> Check(const SolverParameter& param) {
  FieldChecks checks;
  checks.NotNegative("momentum", param.momentum());
  return checks.Take();
}

}  // namespace

UpdateRule NesterovRule() {
  return {.name = "Nesterov",
          .histories = 1,
          .rate_in_history = true,
          .in_caffe = true,
          .check = Check,
          .apply = Apply};
}

}  // namespace crema
