// The calls to NCCL, recorded by replaced functions: no GPU is needed.
#if defined(CREMA_HAVE_CUDA) && __has_include(<nccl.h>)
#include "math/cuda/nccl.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "math/cuda/emulation.h"
#include "math/cuda/nccl_library.h"

namespace crema {
namespace {

// The recorded calls, in order, and the results of the next ones.
struct Calls {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> log;
  std::string fails;   // the call that fails
  bool hangs = false;  // a sum, until its communicator is aborted
  bool hanging = false;
  bool aborted = false;

  void Add(const std::string& call) {
    const std::lock_guard lock(mutex);
    log.push_back(call);
  }
  ncclResult_t Answer(const std::string& name, const std::string& call) {
    Add(call);
    return fails == name ? ncclSystemError : ncclSuccess;
  }
};

Calls& State() {
  static Calls calls;
  return calls;
}

// Communicators are numbers from 1.
ncclComm_t Number(size_t number) { return reinterpret_cast<ncclComm_t>(number); }
std::string NameOf(ncclComm_t communicator) {
  return StrCat("#", reinterpret_cast<size_t>(communicator));
}

ncclResult_t InitAll(ncclComm_t* made, int count, const int* gpus) {
  std::string call = "init";
  for (int i = 0; i < count; ++i) {
    made[i] = Number(static_cast<size_t>(i) + 1);
    call += StrCat(" ", gpus[i]);
  }
  return State().Answer("init", call);
}
ncclResult_t Destroy(ncclComm_t communicator) {
  return State().Answer("destroy", "destroy " + NameOf(communicator));
}
ncclResult_t Abort(ncclComm_t communicator) {
  State().Add("abort " + NameOf(communicator));
  const std::lock_guard lock(State().mutex);
  State().aborted = true;
  State().changed.notify_all();
  return ncclSuccess;
}
ncclResult_t AllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                       ncclRedOp_t operation, ncclComm_t communicator, cudaStream_t) {
  const bool right = from == to && type == ncclFloat && operation == ncclSum;
  {
    std::unique_lock lock(State().mutex);
    State().hanging = State().hangs;
    State().changed.notify_all();
    if (State().hangs) State().changed.wait(lock, [] { return State().aborted; });
  }
  return State().Answer("sum", StrCat(right ? "sum " : "wrong ", count, NameOf(communicator)));
}
ncclResult_t Broadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                       ncclComm_t communicator, cudaStream_t) {
  const bool right = from == to && type == ncclChar && root == 0;
  return State().Answer("copy", StrCat(right ? "copy " : "wrong ", count, NameOf(communicator)));
}
ncclResult_t GroupStart() { return State().Answer("start", "start"); }
ncclResult_t GroupEnd() { return State().Answer("end", "end"); }
const char* ErrorString(ncclResult_t) { return "system error"; }
const char* LastError(ncclComm_t) { return "no route"; }

const NcclLibrary& StandIn() {
  static const NcclLibrary library = {.init_all = InitAll,
                                      .destroy = Destroy,
                                      .abort = Abort,
                                      .all_reduce = AllReduce,
                                      .broadcast = Broadcast,
                                      .group_start = GroupStart,
                                      .group_end = GroupEnd,
                                      .error_string = ErrorString,
                                      .last_error = LastError};
  return library;
}

class Nccl : public testing::Test {
 protected:
  void SetUp() override {
    State().log.clear();
    State().fails.clear();
    State().hangs = State().hanging = State().aborted = false;
  }

  const ExecContext context_ = EmulatedGpuContext(1);
  const CudaQueue& queue_ = BoundQueue(context_);
  std::array<float, 4> values_{};
  const std::array<NcclGroup::Bytes, 3> blobs_ = {
      {{values_.data(), 8}, {nullptr, 0}, {values_.data(), 3}}};
};

using Log = std::vector<std::string>;

TEST_F(Nccl, SumsAndCopiesInPlace) {
  {
    NcclGroup group({3, 5}, StandIn());
    group.Sum(1, queue_, values_.data(), 4);
    group.Broadcast(0, queue_, blobs_);
  }
  EXPECT_EQ(State().log, (Log{"init 3 5", "sum 4#2", "start", "copy 8#1", "copy 3#1", "end",
                              "destroy #1", "destroy #2"}));
}

std::string MessageOf(const std::function<void()>& body, ErrorCode code) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "went on";
}

TEST_F(Nccl, TellsWhatItWasTold) {
  State().fails = "init";
  EXPECT_EQ(MessageOf(
                [] {
                  NcclGroup({0, 1}, StandIn());
                },
                ErrorCode::kDeviceFailure),
            "ncclCommInitAll failed: system error: no route; NCCL_DEBUG=WARN in the environment "
            "makes NCCL say more");
  State().fails = "";
  NcclGroup group({0, 1}, StandIn());
  for (const auto& [fails, name] :
       {std::pair("copy", "ncclBroadcast"), std::pair("start", "ncclGroupStart"),
        std::pair("end", "ncclGroupEnd")}) {
    State().fails = fails;
    State().log.clear();
    const std::string message =
        MessageOf([&] { group.Broadcast(1, queue_, blobs_); }, ErrorCode::kDeviceFailure);
    EXPECT_TRUE(message.starts_with(StrCat(name, " failed"))) << message;
    // A group that was begun is ended.
    EXPECT_EQ(State().log.back(), State().fails == "start" ? "start" : "end");
  }
  State().fails = "sum";
  EXPECT_TRUE(MessageOf([&] { group.Sum(0, queue_, values_.data(), 4); }, ErrorCode::kDeviceFailure)
                  .starts_with("ncclAllReduce failed"));
}

TEST_F(Nccl, AbortsEachCommunicatorOnce) {
  {
    NcclGroup group({0, 1, 2}, StandIn());
    group.Abort();
    group.Abort();
    std::string message =
        MessageOf([&] { group.Sum(1, queue_, values_.data(), 4); }, ErrorCode::kCancelled);
    EXPECT_EQ(message, "another GPU of this run has failed");
  }
  std::ranges::sort(State().log);
  EXPECT_EQ(State().log, (Log{"abort #1", "abort #2", "abort #3", "init 0 1 2"}));
}

// A rank waits within NCCL for one that will not come.
TEST_F(Nccl, AbortReleasesWhoHangsInACall) {
  NcclGroup group({0, 1}, StandIn());
  State().hangs = true;
  std::thread rank([&] { group.Sum(1, queue_, values_.data(), 4); });
  {
    std::unique_lock lock(State().mutex);
    State().changed.wait(lock, [] { return State().hanging; });
  }
  group.Abort();
  rank.join();
  EXPECT_EQ(std::ranges::count(State().log, "abort #2"), 1);
}

}  // namespace
}  // namespace crema
#endif
