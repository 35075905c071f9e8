// Lion; see LionRule.
#include "solvers/rules/field_checks.h"
#include "solvers/rules/rules.h"
#include "solvers/rules/update_pass.h"

namespace crema {
namespace {

double SecondMomentum(const SolverParameter& param) {
  return param.has_momentum2() ? double{param.momentum2()} : 0.99;
}

template <typename T>
struct LionStep {
  static constexpr size_t kHistories = 1;
  static constexpr Decay kDecay = Decay::kDecoupled;
  T direction_keep;  // momentum
  T history_keep;    // momentum2
  T rate;
  T keep;  // what decay leaves of a weight

  LionStep(const UpdateArgs& args, const BlobUpdate& blob)
      : direction_keep(static_cast<T>(args.momentum)),
        history_keep(static_cast<T>(SecondMomentum(args.param))),
        rate(static_cast<T>(blob.rate)),
        keep(static_cast<T>(1 - blob.rate * blob.decay)) {}

  T operator()(T w, T g, T& h) const {
    const T direction = direction_keep * h + (1 - direction_keep) * g;
    h = history_keep * h + (1 - history_keep) * g;
    return keep * w - rate * Sign(direction);
  }
};

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
