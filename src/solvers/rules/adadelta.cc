// AdaDelta; see AdaDeltaRule.
#include "solvers/rules/field_checks.h"
#include "solvers/rules/rules.h"
#include "solvers/rules/steps.h"
#include "solvers/rules/update_pass.h"

namespace crema {
namespace {

CREMA_MULTIVERSION bool Run(const AdaDeltaStep<float>& step, const Piece<float, 2>& piece) {
  return RunPiece(step, piece);
}
bool Run(const AdaDeltaStep<double>& step, const Piece<double, 2>& piece) {
  return RunPiece(step, piece);
}

int64_t Apply(const UpdateArgs& args) {
  return UpdateByStep<AdaDeltaStep>(
      args, [](const auto& step, const auto& piece) { return Run(step, piece); });
}

std::vector<Problem> Check(const SolverParameter& param) {
  FieldChecks checks;
  checks.BelowOne("momentum", param.momentum());
  checks.NotNegative("delta", param.delta());
  return checks.Take();
}

}  // namespace

UpdateRule AdaDeltaRule() {
  return {.name = "AdaDelta",
          .histories = 2,
          .squares = 0b11,
          .in_caffe = true,
          .reads = {"delta"},
          .check = Check,
          .apply = Apply};
}

}  // namespace crema
