// Adam with decoupled weight decay; see AdamWRule.
#include "solvers/rules/field_checks.h"
#include "solvers/rules/rules.h"
#include "solvers/rules/steps.h"
#include "solvers/rules/update_pass.h"

namespace crema {
namespace {

CREMA_MULTIVERSION bool Run(const AdamWStep<float>& step, const Piece<float, 2>& piece) {
  return RunPiece(step, piece);
}
bool Run(const AdamWStep<double>& step, const Piece<double, 2>& piece) {
  return RunPiece(step, piece);
}

int64_t Apply(const UpdateArgs& args) {
  return UpdateByStep<AdamWStep>(
      args, [](const auto& step, const auto& piece) { return Run(step, piece); });
}

}  // namespace

UpdateRule AdamWRule() {
  return {.name = "AdamW",
          .histories = 2,
          .squares = 0b10,
          .default_momentum = 0.9,
          .takes_l1 = false,
          .reads = {"momentum2", "delta"},
          .check = CheckMoments,
          .apply = Apply};
}

}  // namespace crema
