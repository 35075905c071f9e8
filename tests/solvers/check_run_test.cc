// Cases that cannot be tested through the command check.
#include "solvers/check_run.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/machine_limits.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

constexpr char kSolver[] =
    "net_param { layer { name: 'data' type: 'DummyData' top: 'x' top: 't' dummy_data_param { "
    "shape { dim: 6 dim: 4 } shape { dim: 6 dim: 3 } } } "
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' "
    "inner_product_param { num_output: 3 } } "
    "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'y' bottom: 't' top: 'loss' } } "
    "lr_policy: 'fixed' base_lr: 0.1 max_iter: 4 snapshot_after_train: false ";

CheckReport Check(const std::string& more, const CheckOptions& options) {
  return CheckRun(ParseSolver(kSolver + more, "solver.prototxt"), test::TestRegistry(), options);
}

TEST(CheckRun, MemoryThatIsNotThereIsAProblemAndNothingIsAllocated) {
  const CheckReport little = Check("", {.threads = 1, .weights = {}, .memory = 100});
  ASSERT_EQ(little.problems.size(), 1U);
  EXPECT_NE(little.problems[0].message.find("lower batch_size"), std::string::npos);
  EXPECT_EQ(ExitCode(little), 2);
  EXPECT_EQ(little.nets[0].samples, 0);
  const CheckReport enough = Check("", {.threads = 1, .weights = {}, .memory = 1 << 20});
  EXPECT_EQ(ExitCode(enough), 0);
  EXPECT_EQ(enough.nets[0].samples, 102);  // batches of 6
  // Weights, gradients and momentum at least.
  EXPECT_GE(enough.memory_bytes, 3 * 4 * 15);
}

TEST(CheckRun, WithoutAPrefixNothingIsWritten) {
  const CheckReport report = Check("", {.threads = 1, .weights = {}});
  EXPECT_TRUE(report.snapshot_prefix.empty());
  EXPECT_EQ(report.snapshots, 0);
}

TEST(CheckRun, ARateThatLeavesTheNumbersIsFound) {
  std::string text = kSolver;
  text.replace(text.find("lr_policy: 'fixed'"), 18, "lr_policy: 'exp' gamma: 1e30 max_iter: 40");
  text.erase(text.find("max_iter: 4 "), 12);
  const CheckReport report = CheckRun(ParseSolver(text, "solver.prototxt"), test::TestRegistry(),
                                      {.threads = 1, .weights = {}});
  ASSERT_EQ(report.problems.size(), 1U);
  EXPECT_NE(ToString(report.problems[0]).find("the learning rate is inf in iteration 11"),
            std::string::npos)
      << ToString(report.problems[0]);
  EXPECT_EQ(ExitCode(report), 2);
}

TEST(MachineLimits, MemoryIsKnown) { EXPECT_GT(AvailableMemory(), 0); }

}  // namespace
}  // namespace crema
