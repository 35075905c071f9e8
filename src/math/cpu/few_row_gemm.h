// Products of few rows with a transposed matrix, without packing, which would take longer than the
// product.
#pragma once

#include <cstdint>

namespace crema {

// Returns true if it is faster than RunSimdGemm for m rows of k elements on this processor: m is
// small, and k so large that the final sum over vector lanes does not matter.
bool FewRowGemmPays(int64_t m, int64_t k);

// C (m x n) = alpha A B^T + beta C on this thread; A is m x k, B is n x k, both row-major. Each
// element of C depends on k only, not on m and n. Thread safety: any.
void FewRowSgemm(int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
                 const float* b, int64_t ldb, float beta, float* c, int64_t ldc);

}  // namespace crema
