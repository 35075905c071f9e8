// Events, asynchronous transfers, and ranges for profilers.
#ifdef __CUDACC__
#include <nvtx3/nvToolsExt.h>
#endif

#include <chrono>
#include <cstring>

#include "math/cuda/check.h"
#include "math/cuda/queue_state.h"

namespace crema {
namespace {

using What = QueueTrace::What;

}  // namespace

// Work of the compute stream is done at once; transfers may be late.
class CudaQueue::EmulatedEvent final : public DeviceEvent {
 public:
  explicit EmulatedEvent(CudaQueue& queue) : queue_(queue) {}

  void Record(DeviceStream stream) override {
    queue_.Bind();
    queue_.RefuseInCapture("records events");
    State& state = *queue_.state_;
    state.Note(What::kRecord, stream, this);
    transfers_ = stream == DeviceStream::kTransfer ? state.transfers_queued : 0;
    time_ = Clock::now();
  }
  void StreamWait(DeviceStream stream) override {
    queue_.Bind();
    queue_.RefuseInCapture("waits for events");
    queue_.state_->Note(What::kStreamWait, stream, this);
    if (stream == DeviceStream::kCompute) queue_.state_->TransferUntil(transfers_);
  }
  bool Passed() override {
    queue_.Bind();
    queue_.state_->Note(What::kAsk, DeviceStream::kCompute, this);
    return queue_.state_->transfers_done >= transfers_;
  }
  void Wait() override {
    queue_.Bind();
    queue_.RefuseInCapture("waits for the GPU");
    queue_.state_->NoteWait();
    queue_.state_->TransferUntil(transfers_);
  }
  double SecondsSince(DeviceEvent& earlier) override {
    return std::chrono::duration<double>(time_ - static_cast<EmulatedEvent&>(earlier).time_)
        .count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  CudaQueue& queue_;
  int64_t transfers_ = 0;  // queued before it
  Clock::time_point time_;
};

#ifdef __CUDACC__

class CudaQueue::Event final : public DeviceEvent {
 public:
  Event(CudaQueue& queue, bool timed) : queue_(queue) {
    const unsigned flags = timed ? cudaEventDefault : cudaEventDisableTiming;
    CheckCuda(cudaEventCreateWithFlags(&event_, flags), "cudaEventCreateWithFlags");
  }
  ~Event() override {
    if (queue_.lost().empty()) cudaEventDestroy(event_);
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void Record(DeviceStream stream) override {
    Ask("records events",
        [&] { CheckCuda(cudaEventRecord(event_, queue_.StreamOf(stream)), "cudaEventRecord"); });
  }
  void StreamWait(DeviceStream stream) override {
    Ask("waits for events", [&] {
      CheckCuda(cudaStreamWaitEvent(queue_.StreamOf(stream), event_, 0), "cudaStreamWaitEvent");
    });
  }
  bool Passed() override {
    cudaError_t status = cudaSuccess;
    Ask("asks for events", [&] {
      status = cudaEventQuery(event_);
      // Not an error, but CheckLaunch must not find it as the last one.
      if (status == cudaErrorNotReady) return void(cudaGetLastError());
      CheckCuda(status, "cudaEventQuery");
    });
    return status == cudaSuccess;
  }
  void Wait() override {
    Ask("waits for the GPU",
        [&] { CheckCuda(cudaEventSynchronize(event_), "cudaEventSynchronize"); });
  }
  double SecondsSince(DeviceEvent& earlier) override {
    float milliseconds = 0;
    Ask("asks for events", [&] {
      CheckCuda(cudaEventElapsedTime(&milliseconds, static_cast<Event&>(earlier).event_, event_),
                "cudaEventElapsedTime");
    });
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  template <typename Body>
  void Ask(const char* what, const Body& body) {
    LosingQueue(&queue_, [&] {
      queue_.Bind();
      queue_.RefuseInCapture(what);
      body();
    });
  }

  CudaQueue& queue_;
  cudaEvent_t event_ = nullptr;
};

namespace {

class PageLockedAllocator final : public Allocator {
 public:
  Device device() const override { return {}; }
  void* Allocate(size_t bytes) override {
    void* pointer = nullptr;
    const size_t size = bytes == 0 ? 1 : bytes;
    CheckCuda(cudaHostAlloc(&pointer, size, cudaHostAllocPortable), "cudaHostAlloc");
    std::memset(pointer, 0, size);
    return pointer;
  }
  void Free(void* pointer, size_t) noexcept override { cudaFreeHost(pointer); }
};

}  // namespace

cudaStream_t CudaQueue::StreamOf(DeviceStream stream) const {
  return stream == DeviceStream::kCompute ? stream_ : state_->transfers;
}

#endif

std::unique_ptr<DeviceEvent> CudaQueue::MakeEvent([[maybe_unused]] bool timed) {
  Bind();
#ifdef __CUDACC__
  if (!emulated()) return std::make_unique<Event>(*this, timed);
#endif
  return std::make_unique<EmulatedEvent>(*this);
}

Allocator& CudaQueue::HostMemory() {
#ifdef __CUDACC__
  if (!emulated()) {
    if (state_->host_memory == nullptr) {
      state_->host_memory = std::make_unique<PageLockedAllocator>();
    }
    return *state_->host_memory;
  }
#endif
  return CpuAllocator();
}

void CudaQueue::CopyToDeviceAsync(DeviceStream stream, void* to, const void* from, size_t bytes) {
  LosingQueue(this, [&] {
    Bind();
    RefuseInCapture("takes what the host computes");
    State& state = *state_;
    state.Note(What::kUpload, stream, from, {}, bytes);
    if (emulated()) {
      if (stream == DeviceStream::kCompute) return void(std::memcpy(to, from, bytes));
      const auto run = [=, &state] {
        std::memcpy(to, from, bytes);
        state.Note(What::kTransferred, DeviceStream::kTransfer, from);
      };
      ++state.transfers_queued;
      if (state.trace != nullptr && state.trace->late_transfers) {
        state.late.emplace_back(run);
      } else {
        run();
        ++state.transfers_done;
      }
      return;
    }
#ifdef __CUDACC__
    CheckCuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, StreamOf(stream)),
              "cudaMemcpyAsync to the GPU");
#endif
  });
}

void CudaQueue::CopyToHostAsync(void* to, const void* from, size_t bytes) {
  LosingQueue(this, [&] {
    Bind();
    RefuseInCapture("lets the host read what it computes");
    state_->Note(What::kDownload, DeviceStream::kCompute, to);
    if (emulated()) return void(std::memcpy(to, from, bytes));
#ifdef __CUDACC__
    CheckCuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_),
              "cudaMemcpyAsync from the GPU");
#endif
  });
}

void CudaQueue::BeginRange(const char* name) {
  state_->Note(What::kBeginRange, DeviceStream::kCompute, nullptr, name);
#ifdef __CUDACC__
  if (!emulated()) nvtxRangePushA(name);
#endif
}

void CudaQueue::EndRange() {
  state_->Note(What::kEndRange, DeviceStream::kCompute, nullptr);
#ifdef __CUDACC__
  if (!emulated()) nvtxRangePop();
#endif
}

}  // namespace crema
