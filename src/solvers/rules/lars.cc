// Layer-wise adaptive rate scaling; see LarsRule.
#include <cmath>
#include <vector>

#include "core/strings.h"
#include "solvers/rules/field_checks.h"
#include "solvers/rules/layerwise_steps.h"
#include "solvers/rules/norms.h"
#include "solvers/rules/rules.h"
#include "solvers/rules/update_pass.h"

namespace crema {
namespace {

CREMA_MULTIVERSION bool Run(const LarsStep<float>& step, const Piece<float, 1>& piece) {
  return RunPiece(step, piece);
}
bool Run(const LarsStep<double>& step, const Piece<double, 1>& piece) {
  return RunPiece(step, piece);
}

// By blob.
template <typename T>
std::vector<double> Ratios(const UpdateArgs& args) {
  std::vector<int64_t> counts;
  for (const BlobUpdate& blob : args.blobs) counts.push_back(blob.weights.count());
  const auto sums =
      SumByBlob<2>(args.context.threads(), counts, [&](size_t b, int64_t begin, int64_t end) {
        const BlobUpdate& blob = args.blobs[b];
        const auto piece = PieceOf<T, 1>(args, blob, 0, begin, end);
        const auto count = static_cast<size_t>(piece.count);
        return std::array<double, 2>{
            SumOfSquares(std::span<const T>(piece.weights, count)),
            SumOfSquares(std::span(piece.gradient, count), piece.scale, piece.limit)};
      });
  std::vector<double> ratios;
  for (size_t b = 0; b < sums.size(); ++b) {
    ratios.push_back(LarsRatio(sums[b][0], sums[b][1], args.blobs[b].decay,
                               double{args.param.trust_coefficient()}));
  }
  return ratios;
}

int64_t Apply(const UpdateArgs& args) {
  if (args.blobs.empty()) return -1;
  return DispatchFloat(args.blobs[0].weights.dtype(), [&]<typename T>(T) {
    const std::vector<double> ratios = Ratios<T>(args);
    return UpdateBlobs<T, 1, Decay::kInGradient>(
        args, [&](size_t b) { return LarsStep<T>(args, args.blobs[b], ratios[b]); },
        [](const auto& step, const auto& piece) { return Run(step, piece); });
  });
}

std::vector<Problem> Check(const SolverParameter& param) {
  FieldChecks checks;
  checks.BelowOne("momentum", param.momentum());
  const double trust = param.trust_coefficient();
  if (!std::isfinite(trust) || trust <= 0) {
    checks.Report("trust_coefficient",
                  StrCat("trust_coefficient is ", trust, "; use a number above 0"));
  }
  return checks.Take();
}

}  // namespace

UpdateRule LarsRule() {
  return {.name = "LARS",
          .histories = 1,
          .default_momentum = 0.9,
          .rate_in_history = true,
          .takes_l1 = false,
          .reads = {"trust_coefficient"},
          .check = Check,
          .apply = Apply};
}

}  // namespace crema
