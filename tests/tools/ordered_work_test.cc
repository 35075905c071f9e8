#include "common/ordered_work.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>

#include "common/progress_line.h"
#ifdef CREMA_FEW_THREADS
#include "support/few_threads.h"
#endif

namespace crema::tools {
namespace {

// Numbers 0..n-1.
auto CountTo(int n, std::atomic<int>* read) {
  return [n, read]() -> std::optional<int> {
    if (*read == n) return std::nullopt;
    return (*read)++;
  };
}

TEST(RunInOrder, WritesInOrderWithAnyNumberOfThreads) {
  for (const int threads : {1, 2, 3, 8}) {
    std::atomic<int> read = 0;
    std::vector<int> written;
    RunInOrder(
        threads, CountTo(1000, &read),
        [](int i) {
          if (i % 7 == 0) std::this_thread::yield();
          return i * i;
        },
        [&](int square) { written.push_back(square); });
    ASSERT_EQ(written.size(), 1000U);
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(written[static_cast<size_t>(i)], i * i);
  }
}

#ifdef CREMA_FEW_THREADS
TEST(WorkerThreads, TooFewThreadsAreAnError) {
  test::ExpectThreadErrors(4, [] { WorkerThreads(4); });
}
#endif

TEST(RunInOrder, NothingToDo) {
  std::atomic<int> read = 0;
  RunInOrder(
      2, CountTo(0, &read), [](int i) { return i; }, [](int) { FAIL(); });
}

TEST(RunInOrder, ReadsOnlyALittleAhead) {
  std::atomic<int> read = 0;
  int written = 0;
  RunInOrder(
      2, CountTo(500, &read), [](int i) { return i; },
      [&](int) {
        ++written;
        EXPECT_LE(read - written, 8);
      });
  EXPECT_EQ(written, 500);
}

TEST(RunInOrder, ResultsBeforeAnErrorAreWritten) {
  std::atomic<int> read = 0;
  std::vector<int> written;
  const auto work = [](int i) {
    if (i >= 17) throw std::runtime_error("bad");
    return i;
  };
  EXPECT_THROW(RunInOrder(3, CountTo(100, &read), work, [&](int i) { written.push_back(i); }),
               std::runtime_error);
  EXPECT_EQ(written.size(), 17U);

  written.clear();
  const auto read_badly = [n = 0]() mutable -> std::optional<int> {
    if (n == 5) throw std::runtime_error("cannot read");
    return n++;
  };
  EXPECT_THROW(RunInOrder(
                   3, read_badly, [](int i) { return i; }, [&](int i) { written.push_back(i); }),
               std::runtime_error);
  EXPECT_EQ(written.size(), 5U);
}

TEST(ProgressParts, CountShareTimeLeftAndRate) {
  using Parts = std::vector<std::string>;
  EXPECT_EQ(ProgressParts("images", 30, 120, 20, 10),
            (Parts{"30/120 images", "25 %", "ETA 0m45s", "2.0 images/s"}));
  EXPECT_EQ(ProgressParts("images", 0, 120, 0, 0), (Parts{"0/120 images", "0 %", "ETA ?"}));
  EXPECT_EQ(ProgressParts("records", 5000, 0, 5000, 2), (Parts{"5000 records", "2500 records/s"}));
}

}  // namespace
}  // namespace crema::tools
