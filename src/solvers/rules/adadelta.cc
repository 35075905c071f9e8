// AdaDelta; see AdaDeltaRule.
#include <cmath>

#include "solvers/rules/field_checks.h"
#include "solvers/rules/rules.h"
#include "solvers/rules/update_pass.h"

namespace crema {
namespace {

template <typename T>
struct AdaDeltaStep {
  static constexpr size_t kHistories = 2;
  static constexpr Decay kDecay = Decay::kInGradient;
  T keep;  // momentum
  T rate;
  T delta;

  AdaDeltaStep(const UpdateArgs& args, const BlobUpdate& blob)
      : keep(static_cast<T>(args.momentum)),
        rate(static_cast<T>(blob.rate)),
        delta(static_cast<T>(args.param.delta())) {}

  T operator()(T w, T g, T& gradients, T& updates) const {
    gradients = keep * gradients + (1 - keep) * (g * g);
    const T u = g * std::sqrt((updates + delta) / (gradients + delta));
    updates = keep * updates + (1 - keep) * (u * u);
    return w - rate * u;
  }
};

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
