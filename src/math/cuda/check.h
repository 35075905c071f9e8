// The only place that converts the status of a CUDA or cuBLAS call to an Error.
#pragma once

#ifdef __CUDACC__
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <string_view>

namespace crema {

// Throws kOutOfMemory or kDeviceFailure unless `status` is success; `call` names the function.
void CheckCuda(cudaError_t status, std::string_view call);
void CheckCublas(cublasStatus_t status, std::string_view call);

// Call after a kernel launch; `kernel` names it. Errors of its execution appear at a later call.
void CheckLaunch(std::string_view kernel);

}  // namespace crema
#endif
