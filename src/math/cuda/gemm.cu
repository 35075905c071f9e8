#include <algorithm>
#include <bit>
#include <type_traits>

#include "core/error.h"
#include "math/cuda/check.h"
#include "math/cuda/cublas.h"
#include "math/cuda/data_type.h"
#include "math/cuda/gemm.h"
#include "math/cuda/launch.cuh"
#include "math/gemm.h"

namespace crema {
namespace {

struct MatrixSizes {
  int64_t m, n, k, lda, ldb, ldc;
};

// Rounds to 10 bits of mantissa; NaN and infinity stay.
float RoundedToTf32(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7F800000U) == 0x7F800000U) return value;
  return std::bit_cast<float>((bits + 0xFFFU + (bits >> 13 & 1U)) & ~0x1FFFU);
}

// Computes one product on the CPU instead of cuBLAS: sums are floats.
template <typename T>
void EmulatedGemm(bool tf32, bool ta, bool tb, const MatrixSizes& s, float alpha, const T* a,
                  const T* b, float beta, T* c) {
  if constexpr (std::is_same_v<T, float>) {
    if (!tf32) return Gemm(1, ta, tb, s.m, s.n, s.k, alpha, a, s.lda, b, s.ldb, beta, c, s.ldc);
  }
  const auto factor = [tf32](T value) {
    return tf32 ? RoundedToTf32(ToFloat(value)) : ToFloat(value);
  };
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      float sum = 0;
      for (int64_t p = 0; p < s.k; ++p) {
        sum += factor(a[ta ? p * s.lda + i : i * s.lda + p]) *
               factor(b[tb ? j * s.ldb + p : p * s.ldb + j]);
      }
      T& to = c[i * s.ldc + j];
      to = FromFloat<T>(alpha * sum + (beta == 0 ? 0 : beta * ToFloat(to)));
    }
  }
}

}  // namespace

void CudaGemm(const CudaQueue& queue, DType dtype, bool ta, bool tb, int64_t m, int64_t n,
              int64_t k, const void* a, int64_t lda, const void* b, int64_t ldb, float beta,
              void* c, int64_t ldc) {
  CudaGemmBatched(queue, dtype, {1, 0, 0, 0}, ta, tb, m, n, k, a, lda, b, ldb, beta, c, ldc);
}

void CudaGemmBatched(const CudaQueue& queue, DType dtype, const CudaBatch& batch, bool ta, bool tb,
                     int64_t m, int64_t n, int64_t k, const void* a, int64_t lda, const void* b,
                     int64_t ldb, float beta, void* c, int64_t ldc) {
  if (batch.count == 0 || m == 0 || n == 0) return;
  const bool tf32 = queue.tf32() && dtype == DType::kF32;
  if (queue.emulated()) {
    const auto run = [=] {
      DispatchCudaFloat(dtype, [&]<typename T>(T) {
        for (int64_t i = 0; i < batch.count; ++i) {
          EmulatedGemm(tf32, ta, tb, {m, n, k, lda, ldb, ldc}, batch.alpha,
                       static_cast<const T*>(a) + i * batch.stride_a,
                       static_cast<const T*>(b) + i * batch.stride_b, beta,
                       static_cast<T*>(c) + i * batch.stride_c);
        }
      });
    };
    return queue.CapturesWork("Gemm") ? queue.CaptureWork(run) : run();
  }
#ifdef __CUDACC__
  const auto op = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const auto stride = [](int64_t elements) { return std::max<int64_t>(1, elements); };
  const cudaDataType_t type = CudaDataType(dtype);
  const cublasComputeType_t compute = tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  // cuBLAS is column-major and so sees transposes: C^T = op(B)^T op(A)^T.
  if (batch.count == 1) {
    CheckCublas(Cublas().gemm(queue.cublas(), op(tb), op(ta), n, m, k, &batch.alpha, b, type,
                              stride(ldb), a, type, stride(lda), &beta, c, type, stride(ldc),
                              compute, CUBLAS_GEMM_DEFAULT),
                "cublasGemmEx");
    return;
  }
  CheckCublas(Cublas().gemm_strided_batched(
                  queue.cublas(), op(tb), op(ta), n, m, k, &batch.alpha, b, type, stride(ldb),
                  batch.stride_b, a, type, stride(lda), batch.stride_a, &beta, c, type, stride(ldc),
                  batch.stride_c, batch.count, compute, CUBLAS_GEMM_DEFAULT),
              "cublasGemmStridedBatchedEx");
#endif
}

}  // namespace crema
