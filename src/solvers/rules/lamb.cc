// Layer-wise adaptive moments; see LambStep.
#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <vector>

#include "solvers/rules/gradient.h"
#include "solvers/rules/layerwise_steps.h"
#include "solvers/rules/norms.h"
#include "solvers/rules/update_pass.h"

namespace crema {
namespace {

// The first pass: updates the means, and sums the squares of weights and directions.
template <typename T>
[[gnu::always_inline]] inline std::array<double, 2> RunFirst(const Moments<T>& moments,
                                                             const LambDirection<T>& direction,
                                                             const Piece<T, 2>& p) {
  constexpr T kNoLimit = std::numeric_limits<T>::infinity();
  std::array<T, 256> directions;
  std::array<double, 2> sums{};
  for (int64_t at = 0; at < p.count; at += std::ssize(directions)) {
    const int64_t count = std::min(p.count - at, int64_t{std::ssize(directions)});
    const T* const weights = p.weights + at;
    const T* const gradient = p.gradient + at;
    T* const means = p.history[0] + at;
    T* const squares = p.history[1] + at;
    T* const u = directions.data();
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
      T mean = means[i];
      T square = squares[i];
      moments.Add(Clamp(p.scale * gradient[i], p.limit), mean, square);
      means[i] = mean;
      squares[i] = square;
      u[i] = direction(weights[i], mean, square);
    }
    sums[0] += RunSumOfSquares(weights, count, T{1}, kNoLimit);
    sums[1] += RunSumOfSquares(u, count, T{1}, kNoLimit);
  }
  return sums;
}

CREMA_MULTIVERSION std::array<double, 2> First(const Moments<float>& moments,
                                               const LambDirection<float>& direction,
                                               const Piece<float, 2>& piece) {
  return RunFirst(moments, direction, piece);
}
std::array<double, 2> First(const Moments<double>& moments, const LambDirection<double>& direction,
                            const Piece<double, 2>& piece) {
  return RunFirst(moments, direction, piece);
}

template <typename T>
std::vector<double> Ratios(const UpdateArgs& args) {
  std::vector<int64_t> counts;
  for (const BlobUpdate& blob : args.blobs) counts.push_back(blob.weights.count());
  const Moments<T> moments(args);
  const auto sums =
      SumByBlob<2>(args.context.threads(), counts, [&](size_t b, int64_t begin, int64_t end) {
        const BlobUpdate& blob = args.blobs[b];
        return First(moments, LambDirection<T>(args, blob),
                     PieceOf<T, 2>(args, blob, 0, begin, end));
      });
  std::vector<double> ratios;
  for (const std::array<double, 2>& of_blob : sums) {
    ratios.push_back(LambRatio(of_blob[0], of_blob[1]));
  }
  return ratios;
}

}  // namespace

int64_t ApplyLamb(const UpdateArgs& args) {
  if (args.blobs.empty()) return -1;
  return DispatchFloat(args.blobs[0].weights.dtype(), [&]<typename T>(T) {
    const std::vector<double> ratios = Ratios<T>(args);
    return UpdateBlobs<LambStep<T>, T>(
        args, [&](size_t b) { return LambStep<T>(args, args.blobs[b], ratios[b]); });
  });
}

}  // namespace crema
