// cuBLAS, loaded when the first queue of a GPU is made: linked, it would cost each start of each
// command 80 ms, and programs would not start where it is missing.
#pragma once

#ifdef __CUDACC__
#include <cublas_v2.h>

namespace crema {

// Its functions that we call.
struct CublasLibrary {
  decltype(&cublasCreate) create;
  decltype(&cublasDestroy) destroy;
  decltype(&cublasSetStream) set_stream;
  decltype(&cublasSetWorkspace) set_workspace;
  decltype(&cublasGetStatusString) status_string;
  decltype(&cublasGetProperty) property;
  decltype(&cublasGemmEx_64) gemm;
  decltype(&cublasGemmStridedBatchedEx_64) gemm_strided_batched;
};

// Throws kDeviceFailure, with the loader's words, where it cannot be loaded. It stays loaded.
// Thread safety: any number of threads.
const CublasLibrary& Cublas();

}  // namespace crema
#endif
