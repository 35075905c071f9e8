// Ranks exchange data, and none waits for one that has failed.
#include "parallel/rank_group.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "core/device_memory.h"
#include "core/error.h"
#include "core/strings.h"
#include "parallel/collective.h"
#include "runtime/gpu.h"
#include "support/host_collective.h"

namespace crema {
namespace {

constexpr int kRanks = 4;

// Calls body(group, rank) in a thread for each rank.
template <typename Body>
RankGroup::Failure RunAll(Body&& body) {
  ThreadRanks group(kRanks, std::make_unique<HostCollective>(kRanks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&group, &body, rank] {
      try {
        body(group, rank);
      } catch (...) {
        group.Fail(rank, std::current_exception());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return group.failure();
}

TEST(RankGroup, ExchangesNotesAgainAndAgain) {
  const RankGroup::Failure failure = RunAll([](RankGroup& group, int rank) {
    for (int round = 0; round < 500; ++round) {
      const auto notes = group.Exchange(rank, {.number = 1.0 * rank, .text = StrCat(round)});
      for (int r = 0; r < kRanks; ++r) {
        const RankGroup::Note& note = notes[static_cast<size_t>(r)];
        CREMA_CHECK(note.number == r && note.text == StrCat(round));
      }
      CREMA_CHECK(group.Mean(rank, rank) == 1.5);
      CREMA_CHECK(group.Lead(rank, {.number = 10.0 * rank + round}).number == round);
    }
  });
  EXPECT_FALSE(failure.error);
}

TEST(RankGroup, ReleasesAllWhenOneFails) {
  const RankGroup::Failure failure = RunAll([](RankGroup& group, int rank) {
    for (int round = 0; round < 100; ++round) {
      if (rank == 2 && round == 50) Fail(ErrorCode::kDataLoss, "broken");
      group.Exchange(rank, {});
    }
  });
  ASSERT_TRUE(failure.error);
  EXPECT_EQ(failure.rank, 2);
  try {
    std::rethrow_exception(failure.error);
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "broken");
  }
}

// Counts the calls of Abort.
class CountingCollective final : public Collective {
 public:
  explicit CountingCollective(int* aborts) : aborts_(aborts) {}
  void Sum(int, const ExecContext&, std::span<float>) override {}
  void CopyFromFirst(int, const ExecContext&, std::span<const TensorView>) override {}
  void Abort() noexcept override { ++*aborts_; }

 private:
  int* const aborts_;
};

// Aborting spoils what the other devices would finish: the weights of a snapshot, too.
TEST(RankGroup, AbortsOnlyWhereADeviceIsAtFault) {
  for (const ErrorCode code : {ErrorCode::kDataLoss, ErrorCode::kDiverged, ErrorCode::kCancelled,
                               ErrorCode::kDeviceFailure, ErrorCode::kInternal}) {
    int aborts = 0;
    ThreadRanks group(2, std::make_unique<CountingCollective>(&aborts));
    EXPECT_NO_THROW(group.ThrowIfFailed());
    group.Fail(1, std::make_exception_ptr(Error({code, {}, "the first"})));
    group.Fail(0, std::make_exception_ptr(Error({ErrorCode::kCancelled, {}, "the second"})));
    EXPECT_EQ(aborts, code == ErrorCode::kDeviceFailure || code == ErrorCode::kInternal ? 1 : 0);
    EXPECT_THROW(group.ThrowIfFailed(), Error);
    EXPECT_THROW(group.Exchange(0, {}), Error);
    EXPECT_EQ(group.failure().rank, 1);
  }
}

// On the host; contexts of the CPU.
TEST(HostCollective, SumsAndCopies) {
  const RankGroup::Failure failure = RunAll([](RankGroup& group, int rank) {
    const ExecContext context(1, 1);
    for (int round = 0; round < 20; ++round) {
      std::vector<float> values(1000, 0.1F * static_cast<float>(rank + round));
      group.collective().Sum(rank, context, values);
      float expected = 0;
      for (int r = 0; r < kRanks; ++r) expected += 0.1F * static_cast<float>(r + round);
      for (const float value : values) CREMA_CHECK(value == expected);
      values[7] = static_cast<float>(rank + 3);
      const TensorView blob(values.data(), Shape{1000}, DType::kF32);
      group.collective().CopyFromFirst(rank, context, std::vector{blob});
      CREMA_CHECK(values[7] == 3);
    }
  });
  EXPECT_FALSE(failure.error);
}

TEST(GpuCollective, SumsAndCopiesOnAllGpusOfTheMachine) {
  const int count = GpuCount();
  if (count == 0) GTEST_SKIP() << "there is no GPU";
  std::vector<int> gpus;
  for (int gpu = 0; gpu < count; ++gpu) gpus.push_back(gpu);
  const auto collective = MakeGpuCollective(gpus);
  Rendezvous queued(count);  // see Solver::AwaitOthersQueued
  const auto run = [&](int rank) {
    const ComputeDevice device = OpenGpu(rank);
    const ExecContext context = device.Context(1, 1);
    Tensor memory(Shape{100003}, DType::kF32, context.allocator());
    const TensorView view = memory.view();
    std::vector<float> values(100003, static_cast<float>(rank + 1));
    Upload(context, view.raw(), values.data(), view.bytes());
    collective->Sum(rank, context, {static_cast<float*>(view.raw()), values.size()});
    ASSERT_TRUE(queued.Wait());
    Download(context, values.data(), view.raw(), view.bytes());
    for (const float value : values) ASSERT_EQ(value, count * (count + 1) / 2);
    values[7] = static_cast<float>(rank + 3);
    Upload(context, view.raw(), values.data(), view.bytes());
    collective->CopyFromFirst(rank, context, std::vector{view});
    ASSERT_TRUE(queued.Wait());
    Download(context, values.data(), view.raw(), view.bytes());
    ASSERT_EQ(values[7], 3);
  };
  std::vector<std::thread> threads;
  for (const int gpu : gpus) {
    threads.emplace_back([&run, &queued, gpu] {
      EXPECT_NO_THROW(run(gpu));
      queued.Release();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// No machine has a GPU of this number.
TEST(GpuCollective, MissingGpusAreAnErrorWithAMessage) {
  try {
    MakeGpuCollective({1000, 1001});
    FAIL() << "made";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDeviceFailure);
    EXPECT_GT(std::string(error.what()).size(), 20U) << error.what();
  }
}

}  // namespace
}  // namespace crema
