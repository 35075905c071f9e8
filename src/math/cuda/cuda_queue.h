// Stream and handles of one GPU; see cuda_device.h.
#pragma once

#ifdef __CUDACC__
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#endif

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/exec_context.h"

// Types of cuDNN and cuBLASLt, whose headers this one does not need.
struct cudnnContext;
struct cublasLtContext;

namespace crema {

struct QueueTrace;  // emulation.h

// Invariant: all work of a session goes through its queue. Thread safety: one thread at a time.
class CudaQueue final : public DeviceQueue {
 public:
  // A queue without a GPU: kernels (launch.cuh) run immediately on the CPU, their bodies compiled
  // for it, on CPU memory. For tests of GPU code on machines without a GPU (emulation.h).
  struct Emulated {
    QueueTrace* trace;  // may be null; else it must outlive the queue
  };
  explicit CudaQueue(Emulated emulated);
#ifdef __CUDACC__
  CudaQueue(int ordinal, bool graphs);
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
  void MarkLost(std::string_view why) noexcept override;
  const std::string& lost() const override;
  void BeginRange(const char* name) override;
  void EndRange() override;
  Allocator& HostMemory() override;
  void CopyToDeviceAsync(DeviceStream stream, void* to, const void* from, size_t bytes) override;
  void CopyToHostAsync(void* to, const void* from, size_t bytes) override;
  std::unique_ptr<DeviceEvent> MakeEvent(bool timed) override;
  void FillScaled(DType dtype, int64_t count, double value, const double* factor,
                  void* to) override;
  void AddSum(DType dtype, int64_t count, double factor, const void* from, double* to) override;
  void BeginPass(uint64_t* step, double* sum) override;
  void Store(uint64_t value, uint64_t* to) override;
  void SetStepPlace(const uint64_t* step) override;
  const uint64_t* step_place() const;
  std::unique_ptr<DeviceGraph> Capture(const std::function<void()>& body) override;

  // Makes its GPU the current CUDA device of this thread, as launches and cuBLAS calls need. Throws
  // the error by which the queue was lost.
  void Bind() const;
  // For an emulated queue, before each launch: returns true if CaptureWork must record the work
  // instead of running it.
  bool CapturesWork(std::string_view kernel) const;
  void CaptureWork(std::function<void()> work) const;
  // Calls a library, which queues work. By value: an emulated queue that captures calls it later.
  template <typename Work>
  void Call(std::string_view name, const Work& work) const {
    if (emulated() && CapturesWork(name)) return CaptureWork(work);
    work();
  }

  // Returns true if products of f32 may round their operands to TF32 (Tf32Scope of gemm.h).
  bool tf32() const { return tf32_; }
  void set_tf32(bool tf32) { tf32_ = tf32; }

  // Handles of libraries that not every net needs (cudnn.h, cublas_lt.h), created at the first use:
  // that must be before or in a first pass, since it allocates and waits. The queue destroys them.
  // An emulated queue has them if tests replaced the functions of the library. Throw kDeviceFailure
  // if the library cannot be used.
  cudnnContext* cudnn() const;
  cublasLtContext* cublas_lt() const;

 private:
  struct State;  // queue_state.h
  class EmulatedEvent;
  class EmulatedGraph;
#ifdef __CUDACC__
  class Event;
  class Graph;
  cudaStream_t StreamOf(DeviceStream stream) const;
#endif
  void RefuseInCapture(const char* what) const;
  void LetGo();

  int ordinal_ = -1;
  bool tf32_ = false;
  mutable std::shared_ptr<cudnnContext> cudnn_;
  mutable std::shared_ptr<cublasLtContext> cublas_lt_;
#ifdef __CUDACC__
  cudaStream_t stream_ = nullptr;
  cublasHandle_t cublas_ = nullptr;
#endif
  std::unique_ptr<State> state_;
};

// Returns the queue of a context on a GPU, bound to this thread.
CudaQueue& BoundQueue(const ExecContext& context);

}  // namespace crema
