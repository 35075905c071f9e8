#include "math/gemm.h"

#include <algorithm>

#include "core/parallel_for.h"
#include "math/cpu/few_row_gemm.h"
#include "math/cpu/simd_gemm.h"
#include "math/vectorize.h"

namespace crema {
namespace {

template <typename T>
void GemmOnThisThread(bool ta, bool tb, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
                      int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {
  if constexpr (sizeof(T) == sizeof(float)) {
    if (!ta && tb && FewRowGemmPays(m, k)) {
      FewRowSgemm(m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
      return;
    }
  }
  RunSimdGemm(FindSimdGemm<T>(), ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

// Sums in 32 lanes, so that additions do not wait for each other.
template <typename T>
[[gnu::always_inline]] inline T DotOf(int64_t n, const T* a, const T* x) {
  constexpr int kLanes = 32;
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += a[i + lane] * x[i + lane];
  }
  T sum = 0;
  for (; i < n; ++i) sum += a[i] * x[i];
  for (T lane : lanes) sum += lane;
  return sum;
}

// Templates cannot be multiversioned.
CREMA_MULTIVERSION float Dot(int64_t n, const float* a, const float* x) { return DotOf(n, a, x); }
CREMA_MULTIVERSION double Dot(int64_t n, const double* a, const double* x) {
  return DotOf(n, a, x);
}

CREMA_MULTIVERSION void AddScaled(int64_t n, float factor, const float* a, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] += factor * a[i];
}
CREMA_MULTIVERSION void AddScaled(int64_t n, double factor, const double* a, double* y) {
  for (int64_t i = 0; i < n; ++i) y[i] += factor * a[i];
}

}  // namespace

template <typename T>
void Gemm(int threads, bool ta, bool tb, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
          int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {
  if (m == 0 || n == 0) return;
  // Under about half a million multiply-adds a thread costs more than it gains.
  constexpr int64_t kPaysForThread = 1 << 19;
  const int64_t work = m * n * std::max<int64_t>(1, k);
  const bool by_rows = m >= n;
  const int64_t count = by_rows ? m : n;
  const int64_t most = std::min<int64_t>(threads, work / kPaysForThread);
  ParallelFor(static_cast<int>(most), count, 8, [&](int64_t begin, int64_t end, int) {
    const int64_t size = end - begin;
    if (by_rows) {
      GemmOnThisThread(ta, tb, size, n, k, alpha, a + begin * (ta ? 1 : lda), lda, b, ldb, beta,
                       c + begin * ldc, ldc);
    } else {
      GemmOnThisThread(ta, tb, m, size, k, alpha, a, lda, b + begin * (tb ? ldb : 1), ldb, beta,
                       c + begin, ldc);
    }
  });
}

template <typename T>
void Gemv(bool ta, int64_t m, int64_t n, T alpha, const T* a, const T* x, T beta, T* y) {
  if (m == 0 || n == 0) return;
  if (!ta) {
    for (int64_t r = 0; r < m; ++r) {
      const T sum = alpha * Dot(n, a + r * n, x);
      y[r] = beta == 0 ? sum : sum + beta * y[r];
    }
    return;
  }
  if (beta == 0) std::fill(y, y + n, T(0));
  if (beta != 0 && beta != 1) {
    for (int64_t i = 0; i < n; ++i) y[i] *= beta;
  }
  for (int64_t r = 0; r < m; ++r) AddScaled(n, alpha * x[r], a + r * n, y);
}

template void Gemm(int, bool, bool, int64_t, int64_t, int64_t, float, const float*, int64_t,
                   const float*, int64_t, float, float*, int64_t);
template void Gemm(int, bool, bool, int64_t, int64_t, int64_t, double, const double*, int64_t,
                   const double*, int64_t, double, double*, int64_t);
template void Gemv(bool, int64_t, int64_t, float, const float*, const float*, float, float*);
template void Gemv(bool, int64_t, int64_t, double, const double*, const double*, double, double*);

}  // namespace crema
