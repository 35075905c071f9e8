// Matrix products on the CPU.
#pragma once

#include <cstdint>

namespace crema {

// C = alpha * op(A) * op(B) + beta * C, all row-major. op(A) is m x k, op(B) is k x n; `lda` is the
// distance in elements between rows of A as stored (k, or m when transposed), and so on. The work
// is divided among `threads` threads; the result depends on their number only through rounding.
// Inside a ParallelFor body pass threads = 1. T is float or double. Thread safety: any.
template <typename T>
void Gemm(int threads, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, T alpha,
          const T* a, int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc);

// y = alpha * op(A) * x + beta * y; A is stored m x n, row-major.
template <typename T>
void Gemv(bool transpose_a, int64_t m, int64_t n, T alpha, const T* a, const T* x, T beta, T* y);

}  // namespace crema
