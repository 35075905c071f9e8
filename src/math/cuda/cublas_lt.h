// cuBLASLt, loaded at the first use; see shared_library.h.
#pragma once

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

#include <string>
#include <string_view>

namespace crema {

// The functions that Crema calls.
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

// Returns why cuBLASLt cannot be used: it cannot be loaded, or there is no GPU. Empty if it can.
// Determined once per process. Thread safety: any number of threads.
std::string WhyNoCublasLt();

// Throws kDeviceFailure with the reason of WhyNoCublasLt if it cannot be used. It stays loaded.
// Thread safety: any number of threads.
const CublasLtLibrary& CublasLt();

// Throws kOutOfMemory or kDeviceFailure unless `status` is success; `call` names the function.
void CheckCublasLt(cublasStatus_t status, std::string_view call);

// For tests: while this object lives, its functions replace cuBLASLt, and no GPU is needed. One at
// a time, while no other thread uses the library; the functions must outlive the queues that used
// them.
class CublasLtStandIn {
 public:
  explicit CublasLtStandIn(const CublasLtLibrary& functions);
  ~CublasLtStandIn();
  CublasLtStandIn(const CublasLtStandIn&) = delete;
  CublasLtStandIn& operator=(const CublasLtStandIn&) = delete;
};

}  // namespace crema
#endif
