// NCCL: sums and copies between GPUs of this process. Loaded at the first use; see
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

// Communicators of several GPUs, each of which is a rank. Thread safety: one thread per rank, each
// with the queue of its GPU; Abort: any.
class NcclGroup {
 public:
  // Connects the ranks; rank r is GPU gpus[r], and no GPU may occur twice. Throws kDeviceFailure
  // with the message of NCCL, or of the loader if it cannot be loaded.
  explicit NcclGroup(const std::vector<int>& gpus);
  // The same with these functions, which must outlive it; for tests.
  NcclGroup(const std::vector<int>& gpus, const NcclLibrary& library);
  // Requires: the queued work is complete in all ranks, or was aborted.
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  // These functions do not wait. All ranks make the same calls in the same order, with the same
  // number of elements; the queue is bound to this thread. Throw kDeviceFailure, and kCancelled
  // after Abort. Sum is in place; its results have the same bits in all ranks.
  void Sum(int rank, const CudaQueue& queue, float* values, int64_t count);
  struct Bytes {
    void* data = nullptr;
    size_t size = 0;
  };
  // Copies the blobs of rank 0 to all ranks, in one operation.
  void Broadcast(int rank, const CudaQueue& queue, std::span<const Bytes> blobs);

  // Aborts the queued work on all GPUs, with undefined results.
  void Abort() noexcept;

 private:
  struct Ranks;
  const std::unique_ptr<Ranks> ranks_;
};

}  // namespace crema
