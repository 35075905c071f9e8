#include <cstring>
#include <string>

#include "core/error.h"
#include "core/strings.h"
#include "math/cuda/check.h"
#include "math/cuda/cublas.h"
#include "math/cuda/cuda_device.h"
#include "math/cuda/cuda_queue.h"
#include "math/cuda/emulation.h"
#include "math/cuda/launch.cuh"

namespace crema {
namespace {

class EmulatedAllocator final : public Allocator {
 public:
  Device device() const override { return {DeviceType::kCuda, 0}; }
  void* Allocate(size_t bytes) override { return CpuAllocator().Allocate(bytes); }
  void Free(void* pointer, size_t bytes) noexcept override { CpuAllocator().Free(pointer, bytes); }
};

template <typename T>
void FillElements(const CudaQueue& queue, int64_t count, float value, T* to) {
  ForElements(queue, "Fill", count,
              [=] CREMA_HOST_DEVICE(int64_t i) { to[i] = FromFloat<T>(value); });
}

}  // namespace

ExecContext EmulatedGpuContext(uint64_t seed) {
  static EmulatedAllocator allocator;
  return EmulatedGpuContext(allocator, seed);
}

ExecContext EmulatedGpuContext(Allocator& memory, uint64_t seed) {
  return ExecContext(std::make_unique<CudaQueue>(CudaQueue::Emulated{}), memory, seed);
}

CudaQueue& BoundQueue(const ExecContext& context) {
  CREMA_CHECK(context.queue() != nullptr && context.device().type == DeviceType::kCuda);
  auto& queue = static_cast<CudaQueue&>(*context.queue());
  queue.Bind();
  return queue;
}

void CudaQueue::Fill(DType dtype, int64_t count, float value, void* to) {
  Bind();
  DispatchCudaFloat(dtype,
                    [&]<typename T>(T) { FillElements(*this, count, value, static_cast<T*>(to)); });
}

#ifndef __CUDACC__

CudaQueue::~CudaQueue() = default;
void CudaQueue::Synchronize() {}
void CudaQueue::Bind() const {}
void CudaQueue::Upload(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }
void CudaQueue::Download(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }
void CudaQueue::Copy(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }

#else

CudaQueue::CudaQueue(int ordinal) : ordinal_(ordinal) {
  const int count = CudaDeviceCount();
  if (ordinal < 0 || ordinal >= count) {
    Fail(ErrorCode::kNotFound,
         StrCat("there is no GPU ", ordinal, "; ", count, " can be used here"));
  }
  Bind();
  CheckCuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  try {
    CheckCublas(Cublas().create(&cublas_), "cublasCreate");
    CheckCublas(Cublas().set_stream(cublas_, stream_), "cublasSetStream");
  } catch (...) {
    if (cublas_ != nullptr) Cublas().destroy(cublas_);
    cudaStreamDestroy(stream_);
    throw;
  }
}

CudaQueue::~CudaQueue() {
  if (emulated()) return;
  // A dead device refuses all of these; there is nobody to tell.
  cudaSetDevice(ordinal_);
  cudaStreamSynchronize(stream_);
  cudnn_.reset();
  cublas_lt_.reset();
  Cublas().destroy(cublas_);
  cudaStreamDestroy(stream_);
}

void CudaQueue::Synchronize() {
  if (emulated()) return;
  Bind();
  CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

void CudaQueue::Upload(void* to, const void* from, size_t bytes) {
  if (emulated()) return void(std::memcpy(to, from, bytes));
  Bind();
  CheckCuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_),
            "cudaMemcpyAsync to the GPU");
  // Memory that is not page-locked has been read by now; page-locked memory has not.
  CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

void CudaQueue::Download(void* to, const void* from, size_t bytes) {
  if (emulated()) return void(std::memcpy(to, from, bytes));
  Bind();
  CheckCuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_),
            "cudaMemcpyAsync from the GPU");
  CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

void CudaQueue::Copy(void* to, const void* from, size_t bytes) {
  if (emulated()) return void(std::memcpy(to, from, bytes));
  Bind();
  CheckCuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_),
            "cudaMemcpyAsync on the GPU");
}

void CudaQueue::Bind() const {
  if (!emulated()) CheckCuda(cudaSetDevice(ordinal_), "cudaSetDevice");
}

#endif

}  // namespace crema
