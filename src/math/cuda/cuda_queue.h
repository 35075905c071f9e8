// Stream and handles of one GPU; see cuda_device.h.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "core/exec_context.h"

namespace crema {

// Invariant: every piece of work of a session goes through stream(). Thread safety: one thread at a
// time.
class CudaQueue final : public DeviceQueue {
 public:
  explicit CudaQueue(int ordinal);
  ~CudaQueue() override;
  CudaQueue(const CudaQueue&) = delete;
  CudaQueue& operator=(const CudaQueue&) = delete;

  void Synchronize() override;

  // Makes its GPU the one of this thread, which launches and cuBLAS calls need.
  void Bind() const;

  cudaStream_t stream() const { return stream_; }
  cublasHandle_t cublas() const { return cublas_; }

 private:
  int ordinal_;
  cudaStream_t stream_ = nullptr;
  cublasHandle_t cublas_ = nullptr;
};

// The queue of a context on a GPU, bound to this thread.
CudaQueue& BoundQueue(const ExecContext& context);

}  // namespace crema
