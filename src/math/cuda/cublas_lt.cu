#ifdef __CUDACC__
#include "core/error.h"
#include "core/strings.h"
#include "math/cuda/cublas_lt.h"
#include "math/cuda/cuda_queue.h"
#include "math/cuda/replaceable_library.h"
#include "math/cuda/shared_library.h"

namespace crema {
namespace {

CublasLtLibrary Load() {
  const SharedLibrary file("cuBLASLt", StrCat("libcublasLt.so.", CUBLAS_VER_MAJOR));
  CublasLtLibrary library{};
  file.Find("cublasLtCreate", &library.create);
  file.Find("cublasLtDestroy", &library.destroy);
  file.Find("cublasLtGetStatusString", &library.status_string);
  file.Find("cublasLtMatmulDescCreate", &library.create_product);
  file.Find("cublasLtMatmulDescDestroy", &library.destroy_product);
  file.Find("cublasLtMatmulDescSetAttribute", &library.set_product);
  file.Find("cublasLtMatrixLayoutCreate", &library.create_layout);
  file.Find("cublasLtMatrixLayoutDestroy", &library.destroy_layout);
  file.Find("cublasLtMatmulPreferenceCreate", &library.create_preference);
  file.Find("cublasLtMatmulPreferenceDestroy", &library.destroy_preference);
  file.Find("cublasLtMatmulPreferenceSetAttribute", &library.set_preference);
  file.Find("cublasLtMatmulAlgoGetHeuristic", &library.heuristic);
  file.Find("cublasLtMatmul", &library.matmul);
  return library;
}

const ReplaceableLibrary<CublasLtLibrary>& Library() {
  static const ReplaceableLibrary<CublasLtLibrary> library("cuBLASLt", Load);
  return library;
}

struct DestroyCublasLt {
  const CublasLtLibrary* library;
  void operator()(cublasLtHandle_t handle) const noexcept { library->destroy(handle); }
};

}  // namespace

std::string WhyNoCublasLt() { return Library().WhyNot(); }

const CublasLtLibrary& CublasLt() { return Library().Get(); }

void CheckCublasLt(cublasStatus_t status, std::string_view call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const ErrorCode code =
      status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorCode::kOutOfMemory : ErrorCode::kDeviceFailure;
  Fail(code, StrCat(call, " failed: ", CublasLt().status_string(status)));
}

CublasLtStandIn::CublasLtStandIn(const CublasLtLibrary& functions) {
  Library().Replace(&functions);
}
CublasLtStandIn::~CublasLtStandIn() { Library().Replace(nullptr); }

cublasLtContext* CudaQueue::cublas_lt() const {
  if (cublas_lt_ != nullptr) return cublas_lt_.get();
  const CublasLtLibrary& library = CublasLt();
  Bind();
  cublasLtHandle_t handle = nullptr;
  CheckCublasLt(library.create(&handle), "cublasLtCreate");
  cublas_lt_ = {handle, DestroyCublasLt{&library}};
  return handle;
}

}  // namespace crema
#endif
