#include "core/parallel_for.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "math/reduce.h"

namespace crema {
namespace {

TEST(ParallelForTest, VisitsEachIndexOnce) {
  for (int threads : {0, 1, 2, 3, 8}) {
    for (int64_t count : {0, 1, 2, 7, 1000}) {
      for (int64_t grain : {1, 3, 5000}) {
        std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
        ParallelFor(threads, count, grain, [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
        });
        for (const auto& visit : visits) ASSERT_EQ(visit, 1) << threads << " " << count;
      }
    }
  }
}

TEST(ParallelForTest, WorkersAreFewerThanThreadsForShortLoops) {
  EXPECT_EQ(ParallelWorkers(8, 100, 50), 2);
  EXPECT_EQ(ParallelWorkers(8, 100, 1000), 1);
  EXPECT_EQ(ParallelWorkers(2, 100, 1), 2);
  EXPECT_EQ(ParallelWorkers(0, 100, 1), 1);
  std::vector<std::atomic<int>> calls(2);
  ParallelFor(8, 100, 50, [&](int64_t, int64_t, int worker) { ++calls.at(size_t(worker)); });
  EXPECT_EQ(calls[0], 1);
  EXPECT_EQ(calls[1], 1);
}

TEST(ParallelForTest, PiecesDependOnTheArgumentsOnly) {
  const auto pieces = [] {
    std::vector<int64_t> begins(3);
    ParallelFor(3, 100, 1, [&](int64_t begin, int64_t, int w) { begins[size_t(w)] = begin; });
    return begins;
  };
  EXPECT_EQ(pieces(), (std::vector<int64_t>{0, 33, 66}));
  EXPECT_EQ(pieces(), pieces());
}

TEST(ParallelForTest, RethrowsAnException) {
  for (int threads : {1, 3}) {
    try {
      ParallelFor(threads, 100, 1, [](int64_t begin, int64_t end, int) {
        if (begin <= 50 && 50 < end) throw std::runtime_error("at 50");
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(std::string(error.what()), "at 50");
    }
  }
}

TEST(ParallelForTest, OtherPiecesFinishWhenOneThrows) {
  std::atomic<int> done = 0;
  EXPECT_THROW(ParallelFor(4, 4, 1,
                           [&](int64_t begin, int64_t, int) {
                             if (begin == 0) throw std::runtime_error("first");
                             ++done;
                           }),
               std::runtime_error);
  EXPECT_EQ(done, 3);
}

TEST(ParallelForTest, MayBeNested) {
  std::atomic<int> sum = 0;
  ParallelFor(3, 3, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      ParallelFor(3, 10, 1, [&](int64_t b, int64_t e, int) { sum += static_cast<int>(e - b); });
    }
  });
  EXPECT_EQ(sum, 30);
}

TEST(OrderedSumTest, GivesTheSameBitsOnAnyNumberOfThreads) {
  const auto sum = [](int threads) {
    return OrderedSum(threads, 100003, 100, [](int64_t begin, int64_t end) {
      double total = 0;
      for (int64_t i = begin; i < end; ++i) total += 1.0 / static_cast<double>(i + 1);
      return total;
    });
  };
  EXPECT_NEAR(sum(1), 12.0901761, 1e-6);  // ln n + 0.5772 + 1/2n
  for (int threads : {2, 3, 7}) EXPECT_EQ(sum(1), sum(threads));
}

TEST(OrderedSumTest, OfNothingIsZero) {
  EXPECT_EQ(OrderedSum(3, 0, 10, [](int64_t begin, int64_t end) { return double(end - begin); }),
            0);
}

}  // namespace
}  // namespace crema
