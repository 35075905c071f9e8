#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "math/cuda/check.h"
#include "math/cuda/cublas.h"
#include "math/cuda/cuda_device.h"
#include "math/cuda/cuda_queue.h"
#include "math/cuda/emulation.h"
#include "math/cuda/queue_state.h"

namespace crema {
namespace {

class EmulatedAllocator final : public Allocator {
 public:
  Device device() const override { return {DeviceType::kCuda, 0}; }
  void* Allocate(size_t bytes) override { return CpuAllocator().Allocate(bytes); }
  void Free(void* pointer, size_t bytes) noexcept override { CpuAllocator().Free(pointer, bytes); }
};

}  // namespace

ExecContext EmulatedGpuContext(uint64_t seed) { return EmulatedGpuContext(nullptr, seed); }

ExecContext EmulatedGpuContext(QueueTrace* trace, uint64_t seed) {
  static EmulatedAllocator allocator;
  return ExecContext(std::make_unique<CudaQueue>(CudaQueue::Emulated{trace}), allocator, seed);
}

ExecContext EmulatedGpuContext(Allocator& memory, uint64_t seed) {
  return ExecContext(std::make_unique<CudaQueue>(CudaQueue::Emulated{nullptr}), memory, seed);
}

CudaQueue& BoundQueue(const ExecContext& context) {
  CREMA_CHECK(context.queue() != nullptr && context.device().type == DeviceType::kCuda);
  auto& queue = static_cast<CudaQueue&>(*context.queue());
  queue.Bind();
  return queue;
}

CudaQueue::CudaQueue(Emulated emulated) : state_(std::make_unique<State>()) {
  state_->trace = emulated.trace;
  state_->no_graphs = emulated.trace != nullptr && emulated.trace->no_graphs;
}

// Work that cannot be captured fails during capture, and leaves the device usable.
void CudaQueue::MarkLost(std::string_view why) noexcept {
  if (!state_->lost.empty() || state_->capturing) return;
  try {
    state_->lost = StrCat("the GPU was lost: ", why);
  } catch (...) {
    state_->lost = "GPU lost";  // short enough to need no allocation
  }
}

const std::string& CudaQueue::lost() const { return state_->lost; }

void CudaQueue::SetStepPlace(const uint64_t* step) { state_->step_place = step; }
const uint64_t* CudaQueue::step_place() const { return state_->step_place; }

void CudaQueue::RefuseInCapture(const char* what) const {
  if (!state_->capturing) return;
  state_->refused = what;
  Fail(ErrorCode::kUnsupported, what);
}

void CudaQueue::Bind() const {
  if (!state_->lost.empty()) Fail(ErrorCode::kDeviceFailure, state_->lost);
#ifdef __CUDACC__
  if (!emulated()) CheckCuda(cudaSetDevice(ordinal_), "cudaSetDevice");
#endif
}

bool CudaQueue::CapturesWork(std::string_view kernel) const {
  QueueTrace* trace = state_->trace;
  if (trace != nullptr && trace->broken_kernel == kernel && trace->whole_launches-- == 0) {
    Fail(ErrorCode::kDeviceFailure,
         StrCat("launching ", kernel, " failed: the stand-in is broken"));
  }
  state_->Note(QueueTrace::What::kLaunch, DeviceStream::kCompute, nullptr, kernel);
  return state_->captured != nullptr;
}

void CudaQueue::CaptureWork(std::function<void()> work) const {
  state_->captured->push_back(std::move(work));
}

void CudaQueue::Synchronize() {
  LosingQueue(this, [&] {
    Bind();
    RefuseInCapture("waits for the GPU");
    state_->NoteWait();
    if (emulated()) return state_->TransferUntil(state_->transfers_queued);
#ifdef __CUDACC__
    CheckCuda(cudaStreamSynchronize(state_->transfers), "cudaStreamSynchronize");
    CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
#endif
  });
}

void CudaQueue::Upload(void* to, const void* from, size_t bytes) {
  LosingQueue(this, [&] {
    Bind();
    RefuseInCapture("takes what the host computes");
    state_->NoteWait();
    if (emulated()) return void(std::memcpy(to, from, bytes));
#ifdef __CUDACC__
    CheckCuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_),
              "cudaMemcpyAsync to the GPU");
    // Memory that is not page-locked has been read when the copy returns; page-locked memory has
    // not.
    CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
#endif
  });
}

void CudaQueue::Download(void* to, const void* from, size_t bytes) {
  LosingQueue(this, [&] {
    Bind();
    RefuseInCapture("lets the host read what it computes with");
    state_->NoteWait();
    if (emulated()) return void(std::memcpy(to, from, bytes));
#ifdef __CUDACC__
    CheckCuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_),
              "cudaMemcpyAsync from the GPU");
    CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
#endif
  });
}

void CudaQueue::Copy(void* to, const void* from, size_t bytes) {
  LosingQueue(this, [&] {
    Bind();
    if (emulated()) {
      const auto run = [=] { std::memcpy(to, from, bytes); };
      return CapturesWork("Copy") ? CaptureWork(run) : run();
    }
#ifdef __CUDACC__
    CheckCuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_),
              "cudaMemcpyAsync on the GPU");
#endif
  });
}

#ifndef __CUDACC__

CudaQueue::~CudaQueue() = default;

#else

namespace {

// cuBLAS's default on these GPUs ("cublasSetWorkspace" in its documentation). With its own
// workspace it allocates nothing while a graph is captured.
size_t WorkspaceBytes(int ordinal) {
  int major = 0;
  CheckCuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal),
            "cudaDeviceGetAttribute");
  return size_t{major >= 9 ? 32U : 4U} << 20;
}

}  // namespace

CudaQueue::CudaQueue(int ordinal, bool graphs)
    : ordinal_(ordinal), state_(std::make_unique<State>()) {
  state_->no_graphs = !graphs;
  const int count = CudaDeviceCount();
  if (ordinal < 0 || ordinal >= count) {
    Fail(ErrorCode::kNotFound,
         StrCat("there is no GPU ", ordinal, "; ", count, " can be used here"));
  }
  Bind();
  try {
    CheckCuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    CheckCuda(cudaStreamCreateWithFlags(&state_->transfers, cudaStreamNonBlocking),
              "cudaStreamCreate");
    CheckCublas(Cublas().create(&cublas_), "cublasCreate");
    CheckCublas(Cublas().set_stream(cublas_, stream_), "cublasSetStream");
    const size_t bytes = WorkspaceBytes(ordinal);
    CheckCuda(cudaMalloc(&state_->cublas_workspace, bytes), "cudaMalloc of cuBLAS's workspace");
    // After cublasSetStream, which would reset it.
    CheckCublas(Cublas().set_workspace(cublas_, state_->cublas_workspace, bytes),
                "cublasSetWorkspace");
  } catch (...) {
    LetGo();
    throw;
  }
}

CudaQueue::~CudaQueue() {
  // A call to a lost device may hang. Its resources end with the process, including library
  // handles, which would otherwise be destroyed here.
  if (!state_->lost.empty()) {
    new std::shared_ptr<cudnnContext>(std::move(cudnn_));
    new std::shared_ptr<cublasLtContext>(std::move(cublas_lt_));
    return;
  }
  if (emulated()) return;
  cudaSetDevice(ordinal_);
  cudaStreamSynchronize(state_->transfers);
  cudaStreamSynchronize(stream_);
  LetGo();
}

void CudaQueue::LetGo() {
  cudnn_.reset();
  cublas_lt_.reset();
  if (cublas_ != nullptr) Cublas().destroy(cublas_);
  if (state_->cublas_workspace != nullptr) cudaFree(state_->cublas_workspace);
  if (state_->transfers != nullptr) cudaStreamDestroy(state_->transfers);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

#endif

}  // namespace crema
