// cuBLAS, loaded when the first queue of a GPU is created: linked, it would add 80 ms to the start
// of each command, and programs would not start if it is missing.
#pragma once

#ifdef __CUDACC__
#include <cublas_v2.h>

namespace crema {

// The functions that Crema calls.
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

// Throws kDeviceFailure with the loader's message if it cannot be loaded. It stays loaded. Thread
// safety: any number of threads.
const CublasLibrary& Cublas();

}  // namespace crema
#endif
