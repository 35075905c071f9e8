// NCCL: sums and copies between GPUs of this process. Loaded when it is asked for first; see
// shared_library.h. This header needs no header of NCCL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "math/cuda/cuda_queue.h"

namespace crema {

struct NcclLibrary;  // nccl_library.h

// Communicators of some GPUs, of which each is a rank. Thread safety: one thread a rank, each
// with the queue of its GPU; Abort any.
class NcclGroup {
 public:
  // Rank r is GPU gpus[r]; no GPU may be there twice. Connects them. Throws kDeviceFailure with the
  // words of NCCL, or of the loader where it cannot be loaded.
  explicit NcclGroup(const std::vector<int>& gpus);
  // The same by these functions, which must outlive it; for tests.
  NcclGroup(const std::vector<int>& gpus, const NcclLibrary& library);
  // Requires: what ranks have queued is complete in all of them, or was aborted.
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  // These do not wait. Every rank calls them as often, in the same order, with as many elements;
  // the queue is bound to this thread. Throw kDeviceFailure, kCancelled once it is aborted.
  // In place; the sums have the same bits in all ranks.
  void Sum(int rank, const CudaQueue& queue, float* values, int64_t count);
  struct Bytes {
    void* data = nullptr;
    size_t size = 0;
  };
  // All become those of rank 0, in one operation.
  void Broadcast(int rank, const CudaQueue& queue, std::span<const Bytes> blobs);

  // Ends what is queued, on all GPUs, with results that are undefined.
  void Abort() noexcept;

 private:
  struct Ranks;
  const std::unique_ptr<Ranks> ranks_;
};

}  // namespace crema
