#include "math/gemm.h"

#include <cblas.h>

#include <algorithm>
#include <mutex>

#include "core/parallel_for.h"
#include "math/cpu/few_row_gemm.h"
#include "math/cpu/simd_gemm.h"
#include "math/vectorize.h"

namespace crema {
namespace {

// All parallelism is ours, so that thread counts belong to a context and not to the process; BLAS
// computes on the calling thread. Sets the same value every time.
void KeepBlasOnCallingThread() {
  static std::once_flag once;
  std::call_once(once, [] { openblas_set_num_threads(1); });
}

CBLAS_TRANSPOSE Op(bool transpose) { return transpose ? CblasTrans : CblasNoTrans; }

template <typename T>
void BlasGemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, T alpha, const T* a, int64_t lda,
              const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {
  const auto i = [](int64_t v) { return static_cast<blasint>(v); };
  const auto ld = [](int64_t v) { return static_cast<blasint>(std::max<int64_t>(1, v)); };
  if constexpr (sizeof(T) == sizeof(float)) {
    cblas_sgemm(CblasRowMajor, Op(ta), Op(tb), i(m), i(n), i(k), alpha, a, ld(lda), b, ld(ldb),
                beta, c, ld(ldc));
  } else {
    cblas_dgemm(CblasRowMajor, Op(ta), Op(tb), i(m), i(n), i(k), alpha, a, ld(lda), b, ld(ldb),
                beta, c, ld(ldc));
  }
}

template <typename T>
void GemmOnThisThread(bool ta, bool tb, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
                      int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {
  if constexpr (sizeof(T) == sizeof(float)) {
    if (const SimdGemm* simd = FindSimdGemm()) {
      if (!ta && tb && FewRowGemmPays(m, k)) {
        FewRowSgemm(m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
        return;
      }
      SimdSgemm(*simd, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
      return;
    }
  }
  BlasGemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

// Sums in 32 lanes, so that additions do not wait for each other.
CREMA_MULTIVERSION float Dot(int64_t n, const float* a, const float* x) {
  constexpr int kLanes = 32;
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += a[i + lane] * x[i + lane];
  }
  float sum = 0;
  for (; i < n; ++i) sum += a[i] * x[i];
  for (float lane : lanes) sum += lane;
  return sum;
}

CREMA_MULTIVERSION void AddScaled(int64_t n, float factor, const float* a, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] += factor * a[i];
}

void SimdSgemv(bool ta, int64_t m, int64_t n, float alpha, const float* a, const float* x,
               float beta, float* y) {
  if (!ta) {
    for (int64_t r = 0; r < m; ++r) {
      const float sum = alpha * Dot(n, a + r * n, x);
      y[r] = beta == 0 ? sum : sum + beta * y[r];
    }
    return;
  }
  if (beta == 0) std::fill(y, y + n, 0.0F);
  if (beta != 0 && beta != 1) {
    for (int64_t i = 0; i < n; ++i) y[i] *= beta;
  }
  for (int64_t r = 0; r < m; ++r) AddScaled(n, alpha * x[r], a + r * n, y);
}

}  // namespace

template <typename T>
void Gemm(int threads, bool ta, bool tb, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
          int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {
  if (m == 0 || n == 0) return;
  KeepBlasOnCallingThread();
  // Under about half a million multiply-adds a thread costs more than it gains.
  constexpr int64_t kPaysForThread = 1 << 19;
  const int64_t work = m * n * std::max<int64_t>(1, k);
  const bool by_rows = m >= n;
  const int64_t extent = by_rows ? m : n;
  const int64_t most = std::min<int64_t>(threads, work / kPaysForThread);
  ParallelFor(static_cast<int>(most), extent, 8, [&](int64_t begin, int64_t end, int) {
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
  if constexpr (sizeof(T) == sizeof(float)) {
    if (FindSimdGemm() != nullptr) return SimdSgemv(ta, m, n, alpha, a, x, beta, y);
  }
  KeepBlasOnCallingThread();
  const auto i = [](int64_t v) { return static_cast<blasint>(v); };
  if constexpr (sizeof(T) == sizeof(float)) {
    cblas_sgemv(CblasRowMajor, Op(ta), i(m), i(n), alpha, a, i(n), x, 1, beta, y, 1);
  } else {
    cblas_dgemv(CblasRowMajor, Op(ta), i(m), i(n), alpha, a, i(n), x, 1, beta, y, 1);
  }
}

template void Gemm(int, bool, bool, int64_t, int64_t, int64_t, float, const float*, int64_t,
                   const float*, int64_t, float, float*, int64_t);
template void Gemm(int, bool, bool, int64_t, int64_t, int64_t, double, const double*, int64_t,
                   const double*, int64_t, double, double*, int64_t);
template void Gemv(bool, int64_t, int64_t, float, const float*, const float*, float, float*);
template void Gemv(bool, int64_t, int64_t, double, const double*, const double*, double, double*);

}  // namespace crema
