#ifdef __CUDACC__
#include <algorithm>
#include <bit>
#include <memory>

#include "core/error.h"
#include "math/cuda/cublas_lt.h"
#include "math/cuda/data_type.h"
#include "math/cuda/lt_product.h"

namespace crema {
namespace {

// Uses the library that created it, which tests may have replaced since.
template <auto CublasLtLibrary::*kDestroy>
struct Destroy {
  const CublasLtLibrary* library;
  template <typename T>
  void operator()(T* descriptor) const noexcept {
    (library->*kDestroy)(descriptor);
  }
};
using Matrix =
    std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Destroy<&CublasLtLibrary::destroy_layout>>;
using Operation =
    std::unique_ptr<cublasLtMatmulDescOpaque_t, Destroy<&CublasLtLibrary::destroy_product>>;
using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t,
                                   Destroy<&CublasLtLibrary::destroy_preference>>;

// A row-major matrix as cuBLASLt sees it, column-major: its transpose.
Matrix MakeMatrix(DType dtype, int64_t rows, int64_t columns, int64_t stride) {
  cublasLtMatrixLayout_t made = nullptr;
  CheckCublasLt(CublasLt().create_layout(&made, CudaDataType(dtype), static_cast<uint64_t>(columns),
                                         static_cast<uint64_t>(rows), std::max<int64_t>(1, stride)),
                "cublasLtMatrixLayoutCreate");
  return Matrix(made, {&CublasLt()});
}

template <typename T>
void Set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  CheckCublasLt(CublasLt().set_product(operation, attribute, &value, sizeof(value)),
                "cublasLtMatmulDescSetAttribute");
}

template <typename T>
void Set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const T& value) {
  CheckCublasLt(CublasLt().set_preference(preference, attribute, &value, sizeof(value)),
                "cublasLtMatmulPreferenceSetAttribute");
}

uint32_t EpilogueOf(const LtProductConfig& config) {
  if (config.relu) return config.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
  return config.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

// Describes C^T = op(B)^T op(A)^T: its left matrix is B. The bias runs along the columns of C,
// which are the rows of C^T, as the epilogue requires.
Operation MakeOperation(const LtProductConfig& config) {
  const bool tf32 = config.tf32 && config.dtype == DType::kF32;
  cublasLtMatmulDesc_t made = nullptr;
  CheckCublasLt(CublasLt().create_product(
                    &made, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
                "cublasLtMatmulDescCreate");
  Operation operation(made, {&CublasLt()});
  const auto op = [](bool transpose) -> int32_t { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  Set(made, CUBLASLT_MATMUL_DESC_TRANSA, op(config.transpose_b));
  Set(made, CUBLASLT_MATMUL_DESC_TRANSB, op(config.transpose_a));
  Set(made, CUBLASLT_MATMUL_DESC_EPILOGUE, EpilogueOf(config));
  return operation;
}

Preference MakePreference(const LtProductConfig& config) {
  cublasLtMatmulPreference_t made = nullptr;
  CheckCublasLt(CublasLt().create_preference(&made), "cublasLtMatmulPreferenceCreate");
  Preference preference(made, {&CublasLt()});
  Set(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(config.workspace));
  const auto alignment = static_cast<uint32_t>(config.alignment);
  for (const auto which :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    Set(made, which, alignment);
  }
  return preference;
}

}  // namespace

size_t AlignmentOf(const LtPointers& pointers) {
  constexpr size_t kMost = 256;
  size_t bits = kMost;
  for (const void* pointer :
       {pointers.a, pointers.b, pointers.bias, static_cast<const void*>(pointers.c)}) {
    bits |= reinterpret_cast<uintptr_t>(pointer);
  }
  return size_t{1} << std::countr_zero(bits);
}

struct LtProduct::Descriptors {
  explicit Descriptors(const LtProductConfig& s)
      : a(MakeMatrix(s.dtype, s.transpose_a ? s.k : s.m, s.transpose_a ? s.m : s.k, s.lda)),
        b(MakeMatrix(s.dtype, s.transpose_b ? s.n : s.k, s.transpose_b ? s.k : s.n, s.ldb)),
        c(MakeMatrix(s.dtype, s.m, s.n, s.ldc)),
        operation(MakeOperation(s)) {}

  Matrix a, b, c;
  Operation operation;
  cublasLtMatmulAlgo_t algorithm{};
};

LtProduct::LtProduct(const CudaQueue& queue, const LtProductConfig& config)
    : config_(config), descriptors_(std::make_unique<Descriptors>(config)) {
  CREMA_CHECK(config.m > 0 && config.n > 0 && config.k > 0);
  // Only the alignment of the pointer matters here.
  const auto bias = static_cast<uintptr_t>(config.alignment);
  if (config.bias) Set(descriptors_->operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  const Preference preference = MakePreference(config);
  cublasLtMatmulHeuristicResult_t result{};
  int count = 0;
  const cublasStatus_t status =
      CublasLt().heuristic(queue.cublas_lt(), descriptors_->operation.get(), descriptors_->b.get(),
                           descriptors_->a.get(), descriptors_->c.get(), descriptors_->c.get(),
                           preference.get(), 1, &result, &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return;
  CheckCublasLt(status, "cublasLtMatmulAlgoGetHeuristic");
  found_ = count > 0 && result.state == CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= config.workspace;
  descriptors_->algorithm = result.algo;
}

LtProduct::~LtProduct() = default;

void LtProduct::Run(const CudaQueue& queue, const LtPointers& pointers, void* workspace) {
  CREMA_CHECK(found_ && AlignmentOf(pointers) >= config_.alignment);
  CREMA_CHECK(config_.bias == (pointers.bias != nullptr));
  const Descriptors& d = *descriptors_;
  if (config_.bias) {
    Set(d.operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, pointers.bias);
  }
  queue.Call("cublasLtMatmul", [&d, &queue, pointers, workspace, bytes = config_.workspace] {
    const float one = 1, zero = 0;
    CheckCublasLt(
        CublasLt().matmul(queue.cublas_lt(), d.operation.get(), &one, pointers.b, d.b.get(),
                          pointers.a, d.a.get(), &zero, pointers.c, d.c.get(), pointers.c,
                          d.c.get(), &d.algorithm, workspace, bytes, queue.stream()),
        "cublasLtMatmul");
  });
}

}  // namespace crema
#endif
