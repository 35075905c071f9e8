// AdaGrad; see AdaGradRule.
#include "solvers/rules/field_checks.h"
#include "solvers/rules/rules.h"
#include "solvers/rules/steps.h"
#include "solvers/rules/update_pass.h"

namespace crema {
namespace {

CREMA_MULTIVERSION bool Run(const AdaGradStep<float>& step, const Piece<float, 1>& piece) {
  return RunPiece(step, piece);
}
bool Run(const AdaGradStep<double>& step, const Piece<double, 1>& piece) {
  return RunPiece(step, piece);
}

int64_t Apply(const UpdateArgs& args) {
  return UpdateByStep<AdaGradStep>(
      args, [](const auto& step, const auto& piece) { return Run(step, piece); });
}

std::vector<Problem> Check(const SolverParameter& param) {
  FieldChecks checks;
  checks.NoMomentum(param, "AdaGrad");
  checks.NotNegative("delta", param.delta());
  return checks.Take();
}

}  // namespace

UpdateRule AdaGradRule() {
  return {.name = "AdaGrad",
          .histories = 1,
          .squares = 1,
          .in_caffe = true,
          .reads = {"delta"},
          .check = Check,
          .apply = Apply};
}

}  // namespace crema
