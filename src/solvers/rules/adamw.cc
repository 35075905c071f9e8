// Adam with decoupled weight decay; see AdamWRule.
#include <cmath>

#include "solvers/rules/field_checks.h"
#include "solvers/rules/moments.h"
#include "solvers/rules/rules.h"
#include "solvers/rules/update_pass.h"

namespace crema {
namespace {

template <typename T>
struct AdamWStep {
  static constexpr size_t kHistories = 2;
  static constexpr Decay kDecay = Decay::kDecoupled;
  Moments<T> moments;
  T keep;         // what decay leaves of a weight
  T rate;         // over the bias of the mean
  T root_factor;  // 1 over the root of the bias of the square
  T delta;

  AdamWStep(const UpdateArgs& args, const BlobUpdate& blob)
      : moments(args),
        keep(static_cast<T>(1 - blob.rate * blob.decay)),
        delta(static_cast<T>(args.param.delta())) {
    const BiasCorrection bias(args);
    rate = static_cast<T>(blob.rate / bias.first);
    root_factor = static_cast<T>(1 / std::sqrt(bias.second));
  }

  T operator()(T w, T g, T& mean, T& square) const {
    moments.Add(g, mean, square);
    return keep * w - rate * mean / (std::sqrt(square) * root_factor + delta);
  }
};

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
