// Descriptors of cuDNN's operations outside graphs.
#pragma once

#if __has_include(<cudnn.h>)
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>

#include "core/dtype.h"
#include "core/error.h"
#include "math/cuda/cudnn.h"

namespace crema {

// Uses the library that created it, which tests may have replaced since.
template <auto CudnnLibrary::*kDestroy>
struct DestroyCudnnDescriptor {
  const CudnnLibrary* library;
  template <typename T>
  void operator()(T* descriptor) const noexcept {
    (library->*kDestroy)(descriptor);
  }
};

template <typename Handle, auto CudnnLibrary::*kDestroy>
using CudnnOwner = std::unique_ptr<std::remove_pointer_t<Handle>, DestroyCudnnDescriptor<kDestroy>>;
using CudnnTensorOwner = CudnnOwner<cudnnTensorDescriptor_t, &CudnnLibrary::destroy_tensor>;
using CudnnPoolingOwner = CudnnOwner<cudnnPoolingDescriptor_t, &CudnnLibrary::destroy_pooling>;
using CudnnLrnOwner = CudnnOwner<cudnnLRNDescriptor_t, &CudnnLibrary::destroy_lrn>;

// Requires f32, f16 or bf16.
inline cudnnDataType_t CudnnDataType(DType dtype) {
  if (dtype == DType::kF32) return CUDNN_DATA_FLOAT;
  if (dtype == DType::kF16) return CUDNN_DATA_HALF;
  CREMA_CHECK(dtype == DType::kBF16);
  return CUDNN_DATA_BFLOAT16;
}

using CudnnSizes = std::array<int64_t, 4>;

// Returns true if there are elements, and sizes and strides fit 32 bits.
inline bool FitsCudnn(const CudnnSizes& sizes) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  int64_t count = 1;
  for (const int64_t size : sizes) {
    if (size <= 0 || size > kMost / count) return false;
    count *= size;
  }
  return true;
}

// A dense tensor, the last axis innermost. Requires FitsCudnn. Throws kDeviceFailure.
inline CudnnTensorOwner MakeCudnnTensor(DType dtype, const CudnnSizes& sizes) {
  CREMA_CHECK(FitsCudnn(sizes));
  cudnnTensorDescriptor_t made = nullptr;
  CheckCudnn(Cudnn().create_tensor(&made), "cudnnCreateTensorDescriptor");
  CudnnTensorOwner tensor(made, {&Cudnn()});
  const auto size = [&](size_t axis) { return static_cast<int>(sizes[axis]); };
  CheckCudnn(Cudnn().set_tensor_4d(made, CudnnDataType(dtype), size(0), size(1), size(2), size(3),
                                   size(1) * size(2) * size(3), size(2) * size(3), size(3), 1),
             "cudnnSetTensor4dDescriptorEx");
  return tensor;
}

}  // namespace crema
#endif
