#include "solvers/rules/norms.h"

#include <cmath>

#include "math/vectorize.h"
#include "solvers/rules/update_pass.h"

namespace crema {
namespace {

constexpr size_t kLanes = 16;

template <typename T>
inline double RunSumOfSquares(const T* x, size_t count, T scale, T limit) {
  std::array<double, kLanes> lanes{};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t l = 0; l < kLanes; ++l) {
      const double value = Clamp(scale * x[i + l], limit);
      lanes[l] += value * value;
    }
  }
  double sum = 0;
  for (; i < count; ++i) {
    const double value = Clamp(scale * x[i], limit);
    sum += value * value;
  }
  for (double lane : lanes) sum += lane;
  return sum;
}

CREMA_MULTIVERSION double Sum(const float* x, size_t count, float scale, float limit) {
  return RunSumOfSquares(x, count, scale, limit);
}

}  // namespace

double SumOfSquares(std::span<const float> x, double scale, double limit) {
  return Sum(x.data(), x.size(), static_cast<float>(scale), static_cast<float>(limit));
}

double SumOfSquares(std::span<const double> x, double scale, double limit) {
  return RunSumOfSquares(x.data(), x.size(), scale, limit);
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
