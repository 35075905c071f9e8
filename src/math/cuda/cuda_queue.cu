#include <string>

#include "core/error.h"
#include "core/strings.h"
#include "math/cuda/check.h"
#include "math/cuda/cuda_device.h"
#include "math/cuda/cuda_queue.h"
#include "math/cuda/emulation.h"

namespace crema {
namespace {

class EmulatedAllocator final : public Allocator {
 public:
  Device device() const override { return {DeviceType::kCuda, 0}; }
  void* Allocate(size_t bytes) override { return CpuAllocator().Allocate(bytes); }
  void Free(void* pointer, size_t bytes) noexcept override { CpuAllocator().Free(pointer, bytes); }
};

}  // namespace

ExecContext EmulatedGpuContext(uint64_t seed) {
  static EmulatedAllocator allocator;
  return ExecContext(std::make_unique<CudaQueue>(CudaQueue::Emulated{}), allocator, seed);
}

CudaQueue& BoundQueue(const ExecContext& context) {
  CREMA_CHECK(context.queue() != nullptr && context.device().type == DeviceType::kCuda);
  auto& queue = static_cast<CudaQueue&>(*context.queue());
  queue.Bind();
  return queue;
}

#ifndef CREMA_HAVE_CUDA

CudaQueue::~CudaQueue() = default;
void CudaQueue::Synchronize() {}
void CudaQueue::Bind() const {}

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
    CheckCublas(cublasCreate(&cublas_), "cublasCreate");
    CheckCublas(cublasSetStream(cublas_, stream_), "cublasSetStream");
  } catch (...) {
    if (cublas_ != nullptr) cublasDestroy(cublas_);
    cudaStreamDestroy(stream_);
    throw;
  }
}

CudaQueue::~CudaQueue() {
  if (emulated()) return;
  // A dead device refuses all of these; there is nobody to tell.
  cudaSetDevice(ordinal_);
  cudaStreamSynchronize(stream_);
  cublasDestroy(cublas_);
  cudaStreamDestroy(stream_);
}

void CudaQueue::Synchronize() {
  if (emulated()) return;
  Bind();
  CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

void CudaQueue::Bind() const {
  if (!emulated()) CheckCuda(cudaSetDevice(ordinal_), "cudaSetDevice");
}

#endif

}  // namespace crema
