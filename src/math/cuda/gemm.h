// Matrix products on the GPU, by cuBLAS.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "math/cuda/cuda_queue.h"

namespace crema {

// As Gemm of math/gemm.h, row-major, with alpha 1; elements are f32, f16 or bf16, sums are f32.
// `beta` is 0 or 1. Queued; does not wait.
void CudaGemm(const CudaQueue& queue, DType dtype, bool transpose_a, bool transpose_b, int64_t m,
              int64_t n, int64_t k, const void* a, int64_t lda, const void* b, int64_t ldb,
              float beta, void* c, int64_t ldc);

// `batch` such products, times alpha; matrix i of each lies i strides of elements behind the first.
// Those of C must not overlap.
struct CudaBatch {
  int64_t count, stride_a, stride_b, stride_c;
  float alpha = 1;
};
void CudaGemmBatched(const CudaQueue& queue, DType dtype, const CudaBatch& batch, bool transpose_a,
                     bool transpose_b, int64_t m, int64_t n, int64_t k, const void* a, int64_t lda,
                     const void* b, int64_t ldb, float beta, void* c, int64_t ldc);

}  // namespace crema
