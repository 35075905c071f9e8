// The sgemm rate of this machine, to scale other figures by: 2048^3, GFLOP/s, median of 9.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "core/exec_context.h"
#include "math/gemm.h"

namespace {

double Rate(int threads) {
  constexpr int64_t kSize = 2048;
  std::vector<float> a(kSize * kSize, 0.5F);
  std::vector<float> b(kSize * kSize, 0.25F);
  std::vector<float> c(kSize * kSize);
  std::vector<double> rates;
  for (int run = 0; run < 10; ++run) {
    const auto start = std::chrono::steady_clock::now();
    crema::Gemm<float>(threads, false, false, kSize, kSize, kSize, 1, a.data(), kSize, b.data(),
                       kSize, 0, c.data(), kSize);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (run > 0) rates.push_back(2.0 * kSize * kSize * kSize / seconds.count() / 1e9);
  }
  std::ranges::sort(rates);
  return rates[rates.size() / 2];
}

}  // namespace

int main() {
  const int most = crema::AvailableProcessors();
  for (int threads = 1; threads <= most; ++threads) {
    std::printf("sgemm 2048^3, %d threads: %.0f GFLOP/s\n", threads, Rate(threads));
  }
  return 0;
}
