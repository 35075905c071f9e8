// What all kernels share: element types, loops over elements, launches.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "core/dtype.h"
#include "core/error.h"
#include "math/cuda/check.h"
#include "math/cuda/cuda_queue.h"

namespace crema {

constexpr int kBlockThreads = 256;
constexpr int64_t kMaxBlocks = 1 << 16;  // a thread takes several elements beyond that

inline bool IsCudaFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

// Calls body(T{}) with T = float, __half or __nv_bfloat16.
template <typename Body>
void DispatchCudaFloat(DType dtype, Body&& body) {
  CREMA_CHECK(IsCudaFloat(dtype));
  if (dtype == DType::kF32) return body(float{});
  if (dtype == DType::kF16) return body(__half{});
  body(__nv_bfloat16{});
}

// Halves are computed with as floats.
template <typename T>
__device__ inline float ToFloat(T value) {
  return static_cast<float>(value);
}
template <typename T>
__device__ inline T FromFloat(float value) {
  return static_cast<T>(value);
}

__device__ inline int64_t FirstElement() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline int64_t ElementStep() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

// Launches kernel(args...) with a thread for each of `count` elements, or some for many. An empty
// launch would be an error.
template <typename... Parameters, typename... Args>
void LaunchElements(const CudaQueue& queue, std::string_view name, void (*kernel)(Parameters...),
                    int64_t count, Args... args) {
  if (count == 0) return;
  const int64_t blocks = std::min(kMaxBlocks, (count + kBlockThreads - 1) / kBlockThreads);
  kernel<<<static_cast<unsigned>(blocks), kBlockThreads, 0, queue.stream()>>>(args...);
  CheckLaunch(name);
}

}  // namespace crema
