// AdaGrad; see AdaGradRule.
#include <cmath>

#include "solvers/rules/field_checks.h"
#include "solvers/rules/rules.h"
#include "solvers/rules/update_pass.h"

namespace crema {
namespace {

template <typename T>
struct AdaGradStep {
  static constexpr size_t kHistories = 1;
  static constexpr Decay kDecay = Decay::kInGradient;
  T rate;
  T delta;

  AdaGradStep(const UpdateArgs& args, const BlobUpdate& blob)
      : rate(static_cast<T>(blob.rate)), delta(static_cast<T>(args.param.delta())) {}

  T operator()(T w, T g, T& h) const {
    h += g * g;
    return w - rate * g / (std::sqrt(h) + delta);
  }
};

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
