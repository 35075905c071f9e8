// cuBLASLt, loaded when it is asked for first; see shared_library.h.
#pragma once

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

#include <string>
#include <string_view>

namespace crema {

// Its functions that we call.
struct CublasLtLibrary {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtMatmulDescCreate) create_product;
  decltype(&cublasLtMatmulDescDestroy) destroy_product;
  decltype(&cublasLtMatmulDescSetAttribute) set_product;
  decltype(&cublasLtMatrixLayoutCreate) create_layout;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmul) matmul;
};

// Why it cannot be used here: it cannot be loaded, there is no GPU. Empty when it can be. Found
// once a process. Thread safety: any number of threads.
std::string WhyNoCublasLt();

// Throws kDeviceFailure with these words where it cannot be used. It stays loaded. Thread safety:
// any number of threads.
const CublasLtLibrary& CublasLt();

// Throws kOutOfMemory or kDeviceFailure unless `status` is success; `call` names the function.
void CheckCublasLt(cublasStatus_t status, std::string_view call);

// For tests: as long as this lives, these functions are cuBLASLt, and no GPU is needed. One at a
// time, while no other thread asks for it; the functions must outlive the queues that used them.
class CublasLtStandIn {
 public:
  explicit CublasLtStandIn(const CublasLtLibrary& functions);
  ~CublasLtStandIn();
  CublasLtStandIn(const CublasLtStandIn&) = delete;
  CublasLtStandIn& operator=(const CublasLtStandIn&) = delete;
};

}  // namespace crema
#endif
