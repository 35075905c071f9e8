// The internal state of a CudaQueue; for the files that implement it.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "math/cuda/cuda_queue.h"
#include "math/cuda/emulation.h"

namespace crema {

struct CudaQueue::State {
  std::string lost;
  std::unique_ptr<Allocator> host_memory;  // page-locked
  const uint64_t* step_place = nullptr;
  bool no_graphs = false;
  bool capturing = false;
  const char* refused = nullptr;  // forbidden operation of the work being captured

#ifdef __CUDACC__
  cudaStream_t transfers = nullptr;
  void* cublas_workspace = nullptr;
#endif

  // Emulation only.
  QueueTrace* trace = nullptr;
  std::vector<std::function<void()>>* captured = nullptr;  // by Capture
  std::deque<std::function<void()>> late;                  // transfers that are not done yet
  int64_t transfers_queued = 0;
  int64_t transfers_done = 0;

  void Note(QueueTrace::What what, DeviceStream stream, const void* place,
            std::string_view name = {}, size_t bytes = 0) {
    if (trace == nullptr || trace->entries.size() == trace->entries.capacity()) return;
    trace->entries.push_back({what, stream, place, std::string(name), bytes});
  }
  void NoteWait() {
    if (trace != nullptr) ++trace->waits;
  }
  // Runs late transfers until `count` have been done since the beginning.
  void TransferUntil(int64_t count) {
    while (transfers_done < count) {
      late.front()();
      late.pop_front();
      ++transfers_done;
    }
  }
};

}  // namespace crema
