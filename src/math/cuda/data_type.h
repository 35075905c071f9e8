// Element types as CUDA's libraries name them.
#pragma once

#ifdef __CUDACC__
#include <library_types.h>

#include "core/dtype.h"
#include "core/error.h"

namespace crema {

// Requires f32, f16 or bf16.
inline cudaDataType_t CudaDataType(DType dtype) {
  if (dtype == DType::kF32) return CUDA_R_32F;
  if (dtype == DType::kF16) return CUDA_R_16F;
  CREMA_CHECK(dtype == DType::kBF16);
  return CUDA_R_16BF;
}

}  // namespace crema
#endif
