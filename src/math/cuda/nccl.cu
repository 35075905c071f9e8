#include "math/cuda/nccl.h"

#ifdef __CUDACC__
#if __has_include(<nccl.h>)
#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "core/error.h"
#include "core/strings.h"
#include "math/cuda/nccl_library.h"
#include "math/cuda/shared_library.h"

namespace crema {
namespace {

NcclLibrary Load() {
  const SharedLibrary file("NCCL, which several GPUs need,", StrCat("libnccl.so.", NCCL_MAJOR));
  NcclLibrary library{};
  file.Find("ncclCommInitAll", &library.init_all);
  file.Find("ncclCommDestroy", &library.destroy);
  file.Find("ncclCommAbort", &library.abort);
  file.Find("ncclAllReduce", &library.all_reduce);
  file.Find("ncclBroadcast", &library.broadcast);
  file.Find("ncclGroupStart", &library.group_start);
  file.Find("ncclGroupEnd", &library.group_end);
  file.Find("ncclGetErrorString", &library.error_string);
  file.Find("ncclGetLastError", &library.last_error);
  return library;
}

const NcclLibrary& Nccl() {
  static const NcclLibrary library = Load();
  return library;
}

}  // namespace

struct NcclGroup::Ranks {
  struct Rank {
    // Held during NCCL calls with this communicator. Timed, for Abort: a call may hang.
    std::timed_mutex mutex;
    ncclComm_t communicator = nullptr;
  };
  Ranks(size_t count, const NcclLibrary& functions) : library(functions), of(count) {}

  void Check(ncclResult_t status, std::string_view call) const {
    if (status == ncclSuccess) return;
    const char* last = library.last_error(nullptr);
    const std::string more = last == nullptr || *last == '\0' ? "" : StrCat(": ", last);
    Fail(ErrorCode::kDeviceFailure,
         StrCat(call, " failed: ", library.error_string(status), more,
                "; NCCL_DEBUG=WARN in the environment makes NCCL say more"));
  }

  // Calls `work` with the communicator of a rank.
  template <typename Work>
  void With(int rank, Work&& work) {
    Rank& own = of.at(static_cast<size_t>(rank));
    const std::lock_guard lock(own.mutex);
    if (aborted) Fail(ErrorCode::kCancelled, "another GPU of this run has failed");
    work(own.communicator);
  }
  void AbortOne(Rank* rank) const noexcept {
    constexpr std::chrono::seconds kPatience(1);
    std::unique_lock lock(rank->mutex, std::defer_lock);
    // A holder waits within NCCL for a rank that failed; the abort ends the wait.
    static_cast<void>(lock.try_lock_for(kPatience));
    library.abort(rank->communicator);  // the result has no receiver
  }

  const NcclLibrary& library;
  std::vector<Rank> of;
  std::atomic<bool> aborted = false;
};

NcclGroup::NcclGroup(const std::vector<int>& gpus) : NcclGroup(gpus, Nccl()) {}

NcclGroup::NcclGroup(const std::vector<int>& gpus, const NcclLibrary& library)
    : ranks_(std::make_unique<Ranks>(gpus.size(), library)) {
  std::vector<ncclComm_t> made(gpus.size());
  ranks_->Check(ranks_->library.init_all(made.data(), static_cast<int>(gpus.size()), gpus.data()),
                "ncclCommInitAll");
  for (size_t r = 0; r < made.size(); ++r) ranks_->of[r].communicator = made[r];
}

NcclGroup::~NcclGroup() {
  if (ranks_->aborted) return;  // which also destroyed them
  for (const Ranks::Rank& rank : ranks_->of) ranks_->library.destroy(rank.communicator);
}

void NcclGroup::Sum(int rank, const CudaQueue& queue, float* values, int64_t count) {
  ranks_->With(rank, [&](ncclComm_t communicator) {
    ranks_->Check(ranks_->library.all_reduce(values, values, static_cast<size_t>(count), ncclFloat,
                                             ncclSum, communicator, queue.stream()),
                  "ncclAllReduce");
  });
}

void NcclGroup::Broadcast(int rank, const CudaQueue& queue, std::span<const Bytes> blobs) {
  ranks_->With(rank, [&](ncclComm_t communicator) {
    ranks_->Check(ranks_->library.group_start(), "ncclGroupStart");
    ncclResult_t status = ncclSuccess;
    for (const Bytes& blob : blobs) {
      if (blob.size == 0 || status != ncclSuccess) continue;
      status = ranks_->library.broadcast(blob.data, blob.data, blob.size, ncclChar, 0, communicator,
                                         queue.stream());
    }
    const ncclResult_t ended = ranks_->library.group_end();  // closes the group after an error, too
    ranks_->Check(status, "ncclBroadcast");
    ranks_->Check(ended, "ncclGroupEnd");
  });
}

// Aborts each communicator on its own thread, as one may wait for the kernels of another.
void NcclGroup::Abort() noexcept {
  if (ranks_->aborted.exchange(true)) return;
  std::vector<std::thread> threads;
  for (Ranks::Rank& rank : ranks_->of) {
    try {
      threads.emplace_back([this, &rank] { ranks_->AbortOne(&rank); });
    } catch (const std::exception&) {  // no thread could be started
      ranks_->AbortOne(&rank);
    }
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace crema

#else

#include "core/error.h"

namespace crema {

struct NcclGroup::Ranks {};
NcclGroup::NcclGroup(const std::vector<int>&, const NcclLibrary&) {}
NcclGroup::NcclGroup(const std::vector<int>&) {
  Fail(ErrorCode::kDeviceFailure,
       "this program was built without the header of NCCL, which several GPUs need");
}
NcclGroup::~NcclGroup() = default;
void NcclGroup::Sum(int, const CudaQueue&, float*, int64_t) {}
void NcclGroup::Broadcast(int, const CudaQueue&, std::span<const Bytes>) {}
void NcclGroup::Abort() noexcept {}

}  // namespace crema

#endif
#endif
