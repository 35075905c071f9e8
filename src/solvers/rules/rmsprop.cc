// RMSProp; see RmsPropRule.
#include <cmath>

#include "solvers/rules/field_checks.h"
#include "solvers/rules/rules.h"
#include "solvers/rules/update_pass.h"

namespace crema {
namespace {

template <typename T>
struct RmsPropStep {
  static constexpr size_t kHistories = 1;
  static constexpr Decay kDecay = Decay::kInGradient;
  T rate;
  T keep;  // rms_decay
  T delta;

  RmsPropStep(const UpdateArgs& args, const BlobUpdate& blob)
      : rate(static_cast<T>(blob.rate)),
        keep(static_cast<T>(args.param.rms_decay())),
        delta(static_cast<T>(args.param.delta())) {}

  T operator()(T w, T g, T& h) const {
    h = keep * h + (1 - keep) * (g * g);
    return w - rate * g / (std::sqrt(h) + delta);
  }
};

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
