#include "solvers/rules/norms.h"

#include <cmath>
#include <iterator>

#include "math/vectorize.h"

namespace crema {
namespace {

CREMA_MULTIVERSION double Sum(const float* x, int64_t count, float scale, float limit) {
  return RunSumOfSquares(x, count, scale, limit);
}

}  // namespace

double SumOfSquares(std::span<const float> x, double scale, double limit) {
  return Sum(x.data(), std::ssize(x), static_cast<float>(scale), static_cast<float>(limit));
}

double SumOfSquares(std::span<const double> x, double scale, double limit) {
  return RunSumOfSquares(x.data(), std::ssize(x), scale, limit);
}

double NormOf(int threads, std::span<const ConstTensorView> blobs) {
  std::vector<int64_t> counts;
  for (const ConstTensorView& blob : blobs) counts.push_back(blob.count());
  const auto sums = SumByBlob<1>(threads, counts, [&](size_t b, int64_t begin, int64_t end) {
    return DispatchFloat(blobs[b].dtype(), [&]<typename T>(T) {
      const std::span<const T> all = blobs[b].span<T>();
      return std::array<double, 1>{
          SumOfSquares(all.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)))};
    });
  });
  double total = 0;
  for (const std::array<double, 1>& sum : sums) total += sum[0];
  return std::sqrt(total);
}

}  // namespace crema
