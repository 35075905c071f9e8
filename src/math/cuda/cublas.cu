#ifdef __CUDACC__
#include "core/strings.h"
#include "math/cuda/cublas.h"
#include "math/cuda/shared_library.h"

namespace crema {
namespace {

CublasLibrary Load() {
  const SharedLibrary loader("cuBLAS, which GPUs need,", StrCat("libcublas.so.", CUBLAS_VER_MAJOR));
  CublasLibrary library{};
  // The names that the macros of cublas_v2.h expand to.
  loader.Find("cublasCreate_v2", &library.create);
  loader.Find("cublasDestroy_v2", &library.destroy);
  loader.Find("cublasSetStream_v2", &library.set_stream);
  loader.Find("cublasSetWorkspace_v2", &library.set_workspace);
  loader.Find("cublasGetStatusString", &library.status_string);
  loader.Find("cublasGetProperty", &library.property);
  loader.Find("cublasGemmEx_64", &library.gemm);
  loader.Find("cublasGemmStridedBatchedEx_64", &library.gemm_strided_batched);
  return library;
}

}  // namespace

const CublasLibrary& Cublas() {
  static const CublasLibrary library = Load();
  return library;
}

}  // namespace crema
#endif
