// Adam; see AdamRule.
#include <cmath>

#include "solvers/rules/field_checks.h"
#include "solvers/rules/moments.h"
#include "solvers/rules/rules.h"
#include "solvers/rules/update_pass.h"

namespace crema {
namespace {

template <typename T>
struct AdamStep {
  static constexpr size_t kHistories = 2;
  static constexpr Decay kDecay = Decay::kInGradient;
  Moments<T> moments;
  T rate;
  T delta;

  AdamStep(const UpdateArgs& args, const BlobUpdate& blob)
      : moments(args), delta(static_cast<T>(args.param.delta())) {
    const BiasCorrection bias(args);
    rate = static_cast<T>(blob.rate * std::sqrt(bias.second) / bias.first);
  }

  T operator()(T w, T g, T& mean, T& square) const {
    moments.Add(g, mean, square);
    return w - rate * mean / (std::sqrt(square) + delta);
  }
};

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
