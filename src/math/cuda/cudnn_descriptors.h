// Descriptors of cuDNN's single operations.
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

// Of the library that made it, which tests may have replaced meanwhile.
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

// Whether there are elements, and their extents and strides are numbers of 32 bits.
inline bool FitsCudnn(const CudnnSizes& extents) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  int64_t count = 1;
  for (const int64_t extent : extents) {
    if (extent <= 0 || extent > kMost / count) return false;
    count *= extent;
  }
  return true;
}

// A dense tensor, the last axis innermost. Requires FitsCudnn. Throws kDeviceFailure.
inline CudnnTensorOwner MakeCudnnTensor(DType dtype, const CudnnSizes& extents) {
  CREMA_CHECK(FitsCudnn(extents));
  cudnnTensorDescriptor_t made = nullptr;
  CheckCudnn(Cudnn().create_tensor(&made), "cudnnCreateTensorDescriptor");
  CudnnTensorOwner tensor(made, {&Cudnn()});
  const auto extent = [&](size_t axis) { return static_cast<int>(extents[axis]); };
  CheckCudnn(
      Cudnn().set_tensor_4d(made, CudnnDataType(dtype), extent(0), extent(1), extent(2), extent(3),
                            extent(1) * extent(2) * extent(3), extent(2) * extent(3), extent(3), 1),
      "cudnnSetTensor4dDescriptorEx");
  return tensor;
}

}  // namespace crema
#endif
