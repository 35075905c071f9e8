// Stops between the passes of one iteration (iter_size) on GPUs, where iterations are queued ahead.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "support/parallel_training.h"

namespace crema::test {
namespace {

constexpr int kIterations = 4;
constexpr int kPasses = 4;

class GpuStop : public SeveralGpus, public ::testing::WithParamInterface<int> {};

TEST_P(GpuStop, AResumedRunEndsAsOneThatWasNotStopped) {
  const std::string text =
      Regression(StrCat("momentum: 0.9 ema_decay: 0.8 lr_policy: 'fixed' iter_size: ", kPasses,
                        " max_iter: ", kIterations));
  const std::string last = StrCat("s_iter_", kIterations, ".caffemodel");
  Make(GetParam(), text).Solve();
  const std::string expected = temp_.Read(last);
  ASSERT_FALSE(expected.empty());
  for (int when = 1; when < kIterations * kPasses; when += 2) {
    std::filesystem::remove(temp_.File(last));
    int polls = 0;
    recorder_ = {};
    SolverOptions options = GpuOptions(&recorder_);
    options.poll = [&] { return ++polls == when ? Request::kStop : Request::kNone; };
    {
      const Training stopped = MakeTraining(GetParam(), text, std::move(options));
      stopped.Solve();
      EXPECT_EQ(polls, when) << "it went on";
      EXPECT_EQ(stopped.first->iteration(), when / kPasses);
      EXPECT_EQ(recorder_.iterations.size(), static_cast<size_t>(when / kPasses));
    }
    const std::string state = temp_.File(StrCat("s_iter_", when / kPasses, ".solverstate"));
    Make(GetParam(), text, state).Solve();
    EXPECT_TRUE(temp_.Read(last) == expected) << when;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, GpuStop, ::testing::Values(1, 2));

}  // namespace
}  // namespace crema::test
