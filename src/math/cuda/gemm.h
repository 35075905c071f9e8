// Matrix products on the GPU, by cuBLAS.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "math/cuda/cuda_queue.h"

namespace crema {

// While it lives, f32 products on that queue may round their operands to TF32: 8 bits of exponent
// and 10 of mantissa. Sums stay f32. Otherwise they never do.
class Tf32Scope {
 public:
  explicit Tf32Scope(CudaQueue& queue) : queue_(queue), before_(queue.tf32()) {
    queue.set_tf32(true);
  }
  ~Tf32Scope() { queue_.set_tf32(before_); }
  Tf32Scope(const Tf32Scope&) = delete;
  Tf32Scope& operator=(const Tf32Scope&) = delete;

 private:
  CudaQueue& queue_;
  const bool before_;
};

// As Gemm of math/gemm.h, row-major, with alpha 1; elements are f32, f16 or bf16, sums are f32.
// `beta` is 0 or 1. Queued; does not wait.
void CudaGemm(const CudaQueue& queue, DType dtype, bool transpose_a, bool transpose_b, int64_t m,
              int64_t n, int64_t k, const void* a, int64_t lda, const void* b, int64_t ldb,
              float beta, void* c, int64_t ldc);

// `batch` such products, times alpha; matrix i of each starts i strides of elements after the
// first. Those of C must not overlap.
struct CudaBatch {
  int64_t count, stride_a, stride_b, stride_c;
  float alpha = 1;
};
void CudaGemmBatched(const CudaQueue& queue, DType dtype, const CudaBatch& batch, bool transpose_a,
                     bool transpose_b, int64_t m, int64_t n, int64_t k, const void* a, int64_t lda,
                     const void* b, int64_t ldb, float beta, void* c, int64_t ldc);

}  // namespace crema
