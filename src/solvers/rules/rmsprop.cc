// RMSProp; see RmsPropRule.
#include "solvers/rules/field_checks.h"
#include "solvers/rules/rules.h"
#include "solvers/rules/steps.h"
#include "solvers/rules/update_pass.h"

namespace crema {
namespace {

CREMA_MULTIVERSION bool Run(const RmsPropStep<float>& step, const Piece<float, 1>& piece) {
  return RunPiece(step, piece);
}
bool Run(const RmsPropStep<double>& step, const Piece<double, 1>& piece) {
  return RunPiece(step, piece);
}

int64_t Apply(const UpdateArgs& args) {
  return UpdateByStep<RmsPropStep>(
      args, [](const auto& step, const auto& piece) { return Run(step, piece); });
}

std::vector<Problem> Check(const SolverParameter& param) {
  FieldChecks checks;
  checks.NoMomentum(param, "RMSProp");
  checks.BelowOne("rms_decay", param.rms_decay());
  checks.NotNegative("delta", param.delta());
  return checks.Take();
}

}  // namespace

UpdateRule RmsPropRule() {
  return {.name = "RMSProp",
          .histories = 1,
          .squares = 1,
          .in_caffe = true,
          .reads = {"rms_decay", "delta"},
          .check = Check,
          .apply = Apply};
}

}  // namespace crema
