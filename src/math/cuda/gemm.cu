#include <algorithm>

#include "core/error.h"
#include "math/cuda/check.h"
#include "math/cuda/gemm.h"

namespace crema {
namespace {

cudaDataType_t CudaType(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return CUDA_R_32F;
    case DType::kF16:
      return CUDA_R_16F;
    default:
      CREMA_CHECK(dtype == DType::kBF16);
      return CUDA_R_16BF;
  }
}

}  // namespace

void CudaGemm(const CudaQueue& queue, DType dtype, bool ta, bool tb, int64_t m, int64_t n,
              int64_t k, const void* a, int64_t lda, const void* b, int64_t ldb, float beta,
              void* c, int64_t ldc) {
  if (m == 0 || n == 0) return;
  const auto op = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const auto stride = [](int64_t elements) { return std::max<int64_t>(1, elements); };
  const float alpha = 1;
  const cudaDataType_t type = CudaType(dtype);
  // cuBLAS is column-major and so sees transposes: C^T = op(B)^T op(A)^T.
  CheckCublas(cublasGemmEx_64(queue.cublas(), op(tb), op(ta), n, m, k, &alpha, b, type, stride(ldb),
                              a, type, stride(lda), &beta, c, type, stride(ldc), CUBLAS_COMPUTE_32F,
                              CUBLAS_GEMM_DEFAULT),
              "cublasGemmEx");
}

}  // namespace crema
