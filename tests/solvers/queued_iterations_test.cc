#include "solvers/queued_iterations.h"

#include <gtest/gtest.h>

namespace crema {
namespace {

void Queue(QueuedIterations* queued, int64_t iteration) {
  queued->Next().report.iteration = iteration;
  queued->Push();
}

TEST(QueuedIterations, ComeOutInTheOrderInWhichTheyWereQueued) {
  QueuedIterations queued;
  constexpr auto kMost = static_cast<int64_t>(DeviceUpdate::kMostAhead);
  for (int64_t i = 0; i < kMost; ++i) Queue(&queued, i);
  EXPECT_TRUE(queued.full());
  // The places of the first ones are used again.
  for (int64_t i = 0; i < 3 * kMost; ++i) {
    EXPECT_EQ(queued.Pop().report.iteration, i);
    EXPECT_FALSE(queued.full());
    Queue(&queued, i + kMost);
  }
  EXPECT_TRUE(queued.full());
}

TEST(QueuedIterations, HaveNoneThatWasNotPushed) {
  QueuedIterations queued;
  queued.Next().report.iteration = 1;
  EXPECT_TRUE(queued.empty());
  Queue(&queued, 2);
  EXPECT_FALSE(queued.empty());
  queued.Clear();
  EXPECT_TRUE(queued.empty());
}

}  // namespace
}  // namespace crema
