#ifdef __CUDACC__
#include <algorithm>
#include <string>

#include "core/error.h"
#include "core/strings.h"
#include "math/cuda/check.h"
#include "math/cuda/cublas.h"
#include "math/cuda/cuda_device.h"
#include "math/cuda/cuda_queue.h"

namespace crema {

void CheckCuda(cudaError_t status, std::string_view call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // reported here, so the next launch must not find it
  const ErrorCode code =
      status == cudaErrorMemoryAllocation ? ErrorCode::kOutOfMemory : ErrorCode::kDeviceFailure;
  Fail(code,
       StrCat(call, " failed: ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")"));
}

void CheckCublas(cublasStatus_t status, std::string_view call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const ErrorCode code =
      status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorCode::kOutOfMemory : ErrorCode::kDeviceFailure;
  Fail(code, StrCat(call, " failed: ", Cublas().status_string(status)));
}

void CheckLaunch(std::string_view kernel) {
  const cudaError_t status = cudaGetLastError();
  if (status == cudaSuccess) return;
  CheckCuda(status, StrCat("launching ", kernel));
}

int CudaDeviceCount() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();  // clears the error: a missing driver is no failure here
  return 0;
}

void SelectCudaDevice(int ordinal) {
  if (cudaSetDevice(ordinal) != cudaSuccess) cudaGetLastError();  // the first use reports why
}

std::unique_ptr<DeviceQueue> MakeCudaQueue(int ordinal, bool graphs) {
  return std::make_unique<CudaQueue>(ordinal, graphs);
}

namespace {

class CudaAllocator final : public Allocator {
 public:
  CudaAllocator(int ordinal, bool managed) : ordinal_(ordinal), managed_(managed) {}

  Device device() const override { return {DeviceType::kCuda, ordinal_}; }

  void* Allocate(size_t bytes) override {
    CheckCuda(cudaSetDevice(ordinal_), "cudaSetDevice");
    void* pointer = nullptr;
    const size_t size = std::max<size_t>(1, bytes);
    const cudaError_t status =
        managed_ ? cudaMallocManaged(&pointer, size) : cudaMalloc(&pointer, size);
    if (status != cudaSuccess) {
      cudaGetLastError();  // clears the error: a failed allocation leaves the device usable
      CheckCuda(status, StrCat("cudaMalloc of ", bytes, " bytes on ", ToString(device())));
    }
    // The queues' streams do not wait for the stream of this call, so wait here.
    cudaError_t zeroed = cudaMemsetAsync(pointer, 0, size, cudaStreamPerThread);
    if (zeroed == cudaSuccess) zeroed = cudaStreamSynchronize(cudaStreamPerThread);
    if (zeroed != cudaSuccess) cudaFree(pointer);
    CheckCuda(zeroed, "cudaMemset");
    return pointer;
  }

  void Free(void* pointer, size_t) noexcept override {
    cudaSetDevice(ordinal_);
    cudaFree(pointer);
  }

 private:
  const int ordinal_;
  const bool managed_;
};

}  // namespace

std::unique_ptr<Allocator> MakeCudaAllocator(int ordinal) {
  return std::make_unique<CudaAllocator>(ordinal, false);
}
std::unique_ptr<Allocator> MakeManagedAllocator(int ordinal) {
  return std::make_unique<CudaAllocator>(ordinal, true);
}

}  // namespace crema
#endif
