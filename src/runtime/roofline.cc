#include "runtime/roofline.h"

#include <algorithm>
#include <chrono>

#include "core/parallel_for.h"
#include "core/tensor.h"
#include "math/gemm.h"

namespace crema {
namespace {

// Returns the best rate of the runs that fit the time, in `work` per second.
template <typename Body>
double BestRate(double work, Body&& body) {
  using SteadyClock = std::chrono::steady_clock;
  const std::chrono::duration<double> budget(0.25);
  body();  // fetches pages and caches
  double best = 0;
  const auto begin = SteadyClock::now();
  auto start = begin;
  do {
    body();
    const auto end = SteadyClock::now();
    const double seconds = std::chrono::duration<double>(end - start).count();
    if (seconds > 0) best = std::max(best, work / seconds);
    start = end;
  } while (start - begin < budget);
  return best;
}

Tensor Filled(const Shape& shape, float value) {
  Tensor tensor(shape, DType::kF32);
  std::ranges::fill(tensor.view().span<float>(), value);
  return tensor;
}

}  // namespace

double MeasurePeakGflops(int threads) {
  constexpr int64_t kSize = 512;  // 1 MiB a matrix
  const Shape shape{kSize, kSize};
  const Tensor a = Filled(shape, 0.5F);
  const Tensor b = Filled(shape, 0.25F);
  Tensor c = Filled(shape, 0);
  return BestRate(2e-9 * kSize * kSize * kSize, [&] {
    Gemm<float>(threads, false, false, kSize, kSize, kSize, 1, a.view().data<float>(), kSize,
                b.view().data<float>(), kSize, 0, c.view().data<float>(), kSize);
  });
}

double MeasurePeakGbs(int threads) {
  constexpr int64_t kCount = int64_t{1} << 24;  // 64 MiB an array
  Tensor a = Filled({kCount}, 0);
  const Tensor b = Filled({kCount}, 0.5F);
  const Tensor c = Filled({kCount}, 0.25F);
  float* to = a.view().data<float>();
  const float* x = b.view().data<float>();
  const float* y = c.view().data<float>();
  return BestRate(3e-9 * static_cast<double>(sizeof(float) * kCount), [&] {
    ParallelFor(threads, kCount, 1 << 16, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) to[i] = x[i] + 3 * y[i];
    });
  });
}

}  // namespace crema
