// Adam; see AdamRule.
#include "solvers/rules/field_checks.h"
#include "solvers/rules/rules.h"
#include "solvers/rules/steps.h"
#include "solvers/rules/update_pass.h"

namespace crema {
namespace {

CREMA_MULTIVERSION bool Run(const AdamStep<float>& step, const Piece<float, 2>& piece) {
  return RunPiece(step, piece);
}
bool Run(const AdamStep<double>& step, const Piece<double, 2>& piece) {
  return RunPiece(step, piece);
}

int64_t Apply(const UpdateArgs& args) {
  return UpdateByStep<AdamStep>(
      args, [](const auto& step, const auto& piece) { return Run(step, piece); });
}

}  // namespace

UpdateRule AdamRule() {
  return {.name = "Adam",
          .histories = 2,
          .squares = 0b10,
          .in_caffe = true,
          .reads = {"momentum2", "delta"},
          .check = CheckMoments,
          .apply = Apply};
}

}  // namespace crema
