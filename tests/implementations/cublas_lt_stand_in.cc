#include "implementations/cublas_lt_stand_in.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <map>
#include <vector>

#include "implementations/element_memory.h"

struct cublasLtContext {};

namespace crema::test {
namespace {

struct Counts {
  std::atomic<int> living{0};
  std::atomic<bool> finds{true};
};
Counts& Global() {
  static Counts counts;
  return counts;
}

// The contents of the opaque types. Column-major: element (i, j) is at i + j * stride.
struct Layout {
  cudaDataType type;
  int64_t rows, columns, stride;
};
struct Product {
  cublasComputeType_t compute;
  cudaDataType scale;
  std::map<int, std::vector<unsigned char>> attributes;

  template <typename T>
  T Get(cublasLtMatmulDescAttributes_t which, T missing) const {
    const auto found = attributes.find(which);
    if (found == attributes.end()) return missing;
    T value;
    std::memcpy(&value, found->second.data(), sizeof(T));
    return value;
  }
};
struct Preference {
  std::map<int, uint64_t> attributes;
};
struct Algorithm {
  uint64_t workspace, alignment;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

Layout& Of(cublasLtMatrixLayout_t layout) { return *reinterpret_cast<Layout*>(layout); }
Product& Of(cublasLtMatmulDesc_t product) { return *reinterpret_cast<Product*>(product); }
Preference& Of(cublasLtMatmulPreference_t preference) {
  return *reinterpret_cast<Preference*>(preference);
}

template <typename Object, typename Handle>
cublasStatus_t Destroy(Handle handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  delete reinterpret_cast<Object*>(handle);
  --Global().living;
  return CUBLAS_STATUS_SUCCESS;
}
template <typename Handle, typename Object>
cublasStatus_t Give(Handle* handle, Object* made) {
  *handle = reinterpret_cast<Handle>(made);
  ++Global().living;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t Create(cublasLtHandle_t* handle) { return Give(handle, new cublasLtContext()); }

cublasStatus_t CreateLayout(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                            uint64_t columns, int64_t stride) {
  if (stride < static_cast<int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  return Give(layout,
              new Layout{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), stride});
}

cublasStatus_t CreateProduct(cublasLtMatmulDesc_t* product, cublasComputeType_t compute,
                             cudaDataType_t scale) {
  return Give(product, new Product{compute, scale, {}});
}

cublasStatus_t SetProduct(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t which,
                          const void* value, size_t bytes) {
  const size_t expected = which == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? 8 : 4;
  if (bytes != expected) return CUBLAS_STATUS_INVALID_VALUE;
  const auto* from = static_cast<const unsigned char*>(value);
  Of(product).attributes[which].assign(from, from + bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CreatePreference(cublasLtMatmulPreference_t* preference) {
  return Give(preference, new Preference());
}

cublasStatus_t SetPreference(cublasLtMatmulPreference_t preference,
                             cublasLtMatmulPreferenceAttributes_t which, const void* value,
                             size_t bytes) {
  const bool wide = which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
  if (bytes != (wide ? 8U : 4U)) return CUBLAS_STATUS_INVALID_VALUE;
  uint64_t number = 0;
  std::memcpy(&number, value, bytes);
  Of(preference).attributes[which] = number;
  return CUBLAS_STATUS_SUCCESS;
}

bool Transposed(const Product& product, cublasLtMatmulDescAttributes_t which) {
  return product.Get<int32_t>(which, CUBLAS_OP_N) == CUBLAS_OP_T;
}

bool Fits(const Product& product, const Layout& a, const Layout& b, const Layout& c,
          const Layout& d) {
  const bool ta = Transposed(product, CUBLASLT_MATMUL_DESC_TRANSA);
  const bool tb = Transposed(product, CUBLASLT_MATMUL_DESC_TRANSB);
  const int64_t depth = ta ? a.rows : a.columns;
  return (ta ? a.columns : a.rows) == d.rows && (tb ? b.rows : b.columns) == d.columns &&
         (tb ? b.columns : b.rows) == depth && c.rows == d.rows && c.columns == d.columns &&
         a.type == b.type && a.type == d.type && product.scale == CUDA_R_32F;
}

cublasStatus_t Heuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                         cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                         cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                         cublasLtMatmulPreference_t preference, int requested,
                         cublasLtMatmulHeuristicResult_t* results, int* found) {
  if (handle == nullptr || requested < 1 || !Fits(Of(product), Of(a), Of(b), Of(c), Of(d))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *found = 0;
  if (!Global().finds) return CUBLAS_STATUS_NOT_SUPPORTED;
  auto& wishes = Of(preference).attributes;
  const auto wish = [&](cublasLtMatmulPreferenceAttributes_t which, uint64_t missing) {
    return wishes.contains(which) ? wishes.at(which) : missing;
  };
  const Algorithm algorithm{
      .workspace = wish(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 0),
      .alignment = std::max({wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 256),
                             wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 256),
                             wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 256),
                             wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 256)})};
  results[0] = {};
  std::memcpy(&results[0].algo, &algorithm, sizeof(algorithm));
  results[0].workspaceSize = algorithm.workspace;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

DType TypeOf(cudaDataType type) {
  if (type == CUDA_R_16F) return DType::kF16;
  return type == CUDA_R_16BF ? DType::kBF16 : DType::kF32;
}

// Rounds as TF32 units may: cuts off after 10 bits of mantissa.
double InTf32(double value) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  return std::bit_cast<float>(bits & ~0x1FFFU);
}

// Checks the workspace of an algorithm and the alignment of its operands.
bool MayRun(const Algorithm& algorithm, std::vector<const void*> operands, void* workspace,
            size_t bytes) {
  if (algorithm.workspace > bytes) return false;
  if (reinterpret_cast<uintptr_t>(workspace) % 256 != 0) return false;
  std::memset(workspace, 0x5A, algorithm.workspace);
  return std::ranges::all_of(operands, [&](const void* operand) {
    return reinterpret_cast<uintptr_t>(operand) % algorithm.alignment == 0;
  });
}

cublasStatus_t Matmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha,
                      const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                      cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                      cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                      const cublasLtMatmulAlgo_t* algo, void* workspace, size_t bytes,
                      cudaStream_t) {
  const Product& product = Of(operation);
  const Layout &left = Of(a_layout), &right = Of(b_layout), &to = Of(d_layout);
  if (handle == nullptr || !Fits(product, left, right, Of(c_layout), to)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  Algorithm algorithm;
  std::memcpy(&algorithm, algo, sizeof(algorithm));
  const auto epilogue = product.Get<uint32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE, 1);
  const auto* bias = product.Get<const void*>(CUBLASLT_MATMUL_DESC_BIAS_POINTER, nullptr);
  if (!MayRun(algorithm, {a, b, c, d}, workspace, bytes)) return CUBLAS_STATUS_INVALID_VALUE;
  const bool tf32 = product.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  if (!tf32 && product.compute != CUBLAS_COMPUTE_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool ta = Transposed(product, CUBLASLT_MATMUL_DESC_TRANSA);
  const bool tb = Transposed(product, CUBLASLT_MATMUL_DESC_TRANSB);
  const int64_t depth = ta ? left.rows : left.columns;
  const auto load = [&](const Layout& layout, const void* memory, int64_t i, int64_t j) {
    const double value = LoadElement(TypeOf(layout.type), memory, i + j * layout.stride);
    return tf32 ? InTf32(value) : value;
  };
  const DType type = TypeOf(to.type);
  const auto one = static_cast<double>(*static_cast<const float*>(alpha));
  const auto before = static_cast<double>(*static_cast<const float*>(beta));
  for (int64_t j = 0; j < to.columns; ++j) {
    for (int64_t i = 0; i < to.rows; ++i) {
      double sum = 0;
      for (int64_t p = 0; p < depth; ++p) {
        sum += (ta ? load(left, a, p, i) : load(left, a, i, p)) *
               (tb ? load(right, b, j, p) : load(right, b, p, j));
      }
      double value = one * sum;
      if (before != 0) value += before * LoadElement(type, c, i + j * Of(c_layout).stride);
      if ((epilogue & CUBLASLT_EPILOGUE_BIAS) != 0) value += LoadElement(type, bias, i);
      if ((epilogue & CUBLASLT_EPILOGUE_RELU) != 0) value = std::max(value, 0.0);
      StoreElement(type, d, i + j * to.stride, value);
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

CublasLtLibrary MakeLibrary() {
  return {.create = Create,
          .destroy = Destroy<cublasLtContext, cublasLtHandle_t>,
          .status_string = [](cublasStatus_t) { return "the stand-in says no"; },
          .create_product = CreateProduct,
          .destroy_product = Destroy<Product, cublasLtMatmulDesc_t>,
          .set_product = SetProduct,
          .create_layout = CreateLayout,
          .destroy_layout = Destroy<Layout, cublasLtMatrixLayout_t>,
          .create_preference = CreatePreference,
          .destroy_preference = Destroy<Preference, cublasLtMatmulPreference_t>,
          .set_preference = SetPreference,
          .heuristic = Heuristic,
          .matmul = Matmul};
}

}  // namespace

const CublasLtLibrary& CublasLtOfTests() {
  static const CublasLtLibrary library = MakeLibrary();
  return library;
}

int LivingCublasLtObjects() { return Global().living; }
void LetCublasLtFindAlgorithms(bool found) { Global().finds = found; }

}  // namespace crema::test
