// Layer-wise adaptive rate scaling; see LarsStep.
#include <array>
#include <span>
#include <vector>

#include "solvers/rules/layerwise_steps.h"
#include "solvers/rules/norms.h"
#include "solvers/rules/update_pass.h"

namespace crema {
namespace {

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

}  // namespace

int64_t ApplyLars(const UpdateArgs& args) {
  if (args.blobs.empty()) return -1;
  return DispatchFloat(args.blobs[0].weights.dtype(), [&]<typename T>(T) {
    const std::vector<double> ratios = Ratios<T>(args);
    return UpdateBlobs<LarsStep<T>, T>(
        args, [&](size_t b) { return LarsStep<T>(args, args.blobs[b], ratios[b]); });
  });
}

}  // namespace crema
