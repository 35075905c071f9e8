// Stream and handles of one GPU; see cuda_device.h.
#pragma once

#ifdef __CUDACC__
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#endif

#include <memory>

#include "core/exec_context.h"

// Of cuDNN and cuBLASLt, whose headers this one does not need.
struct cudnnContext;
struct cublasLtContext;

namespace crema {

// Invariant: every piece of work of a session goes through its queue. Thread safety: one thread at
// a time.
class CudaQueue final : public DeviceQueue {
 public:
  // Of no GPU: kernels (launch.cuh) run on the CPU at once, their bodies compiled for it; memory is
  // the CPU's. For tests of GPU code where there is no GPU (emulation.h).
  struct Emulated {};
  explicit CudaQueue(Emulated) {}
#ifdef __CUDACC__
  explicit CudaQueue(int ordinal);
  cudaStream_t stream() const { return stream_; }
  cublasHandle_t cublas() const { return cublas_; }
#endif
  ~CudaQueue() override;
  CudaQueue(const CudaQueue&) = delete;
  CudaQueue& operator=(const CudaQueue&) = delete;

  bool emulated() const { return ordinal_ < 0; }
  void Synchronize() override;
  void Upload(void* to, const void* from, size_t bytes) override;
  void Download(void* to, const void* from, size_t bytes) override;
  void Copy(void* to, const void* from, size_t bytes) override;
  void Fill(DType dtype, int64_t count, float value, void* to) override;
  // Makes its GPU the one of this thread, which launches and cuBLAS calls need.
  void Bind() const;

  // Whether products of f32 round what they multiply to TF32 (Tf32Scope of gemm.h).
  bool tf32() const { return tf32_; }
  void set_tf32(bool tf32) { tf32_ = tf32; }

  // Handles of libraries that not every net needs (cudnn.h, cublas_lt.h), made when they are asked
  // for first: so in a first pass or before it, since that allocates and waits. They end with the
  // queue. The stand-in has them where tests put functions in place of the library. Throw
  // kDeviceFailure where the library cannot be used.
  cudnnContext* cudnn() const;
  cublasLtContext* cublas_lt() const;

 private:
  int ordinal_ = -1;
  bool tf32_ = false;
  mutable std::shared_ptr<cudnnContext> cudnn_;
  mutable std::shared_ptr<cublasLtContext> cublas_lt_;
#ifdef __CUDACC__
  cudaStream_t stream_ = nullptr;
  cublasHandle_t cublas_ = nullptr;
#endif
};

// The queue of a context on a GPU, bound to this thread.
CudaQueue& BoundQueue(const ExecContext& context);

}  // namespace crema
