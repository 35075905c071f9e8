// Tests of a run: how often, on what, weighted how.
#include "solvers/test_net.h"

#include <gtest/gtest.h>

#include "core/strings.h"
#include "support/solver_runs.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::MakeSolver;
using test::OptionsFor;
using test::Recorder;
using test::TempDir;

constexpr const char* kPolicy = " base_lr: 1e-6 lr_policy: 'fixed' random_seed: 1 ";
constexpr const char* kNoFiles = " snapshot_after_train: false ";

// A mean of labels tells which samples were seen, and how they were weighted.
std::string LabelNet(const std::string& folder, int batch) {
  return StrCat("layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: '",
                folder, "/test' batch_size: ", batch, " backend: LMDB } } ", R"(
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" include { phase: TRAIN }
  inner_product_param { num_output: 1 } }
layer { name: "l" type: "EuclideanLoss" bottom: "ip" bottom: "label" top: "l"
  include { phase: TRAIN } }
layer { name: "mean" type: "Reduction" bottom: "label" top: "mean" include { phase: TEST }
  reduction_param { operation: MEAN } loss_weight: 2 }
)");
}

std::string Solve(const std::string& net, const std::string& rest, Recorder* recorder) {
  try {
    MakeSolver("net_param { " + net + " }" + kPolicy + kNoFiles + rest, OptionsFor(recorder))
        ->Solve();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class TestOfARun : public ::testing::Test {
 protected:
  void SetUp() override { test::WriteRecords(temp_.File("test"), 10); }

  TempDir temp_;
  Recorder recorder_;
};

TEST_F(TestOfARun, WithoutTestIterSeesEverySampleOnce) {
  // 10 records in batches of 4: 4 + 4 + 2, again from the start each time.
  ASSERT_EQ(Solve(LabelNet(temp_.path(), 4), "max_iter: 3 test_interval: 1", &recorder_), "");
  ASSERT_EQ(recorder_.tests.size(), 4U);
  for (const TestReport& report : recorder_.tests) {
    EXPECT_EQ(report.samples, 10);
    EXPECT_GT(report.seconds, 0);
    ASSERT_EQ(report.outputs.size(), 1U);
    EXPECT_EQ(report.outputs[0].blob, "mean");
    EXPECT_NEAR(report.outputs[0].value, 4.5, 1e-6);
    EXPECT_NEAR(report.loss, 9, 1e-5);
  }
}

TEST_F(TestOfARun, BatchLargerThanTheData) {
  ASSERT_EQ(Solve(LabelNet(temp_.path(), 64), "max_iter: 1 test_interval: 1", &recorder_), "");
  ASSERT_EQ(recorder_.tests.size(), 2U);
  EXPECT_EQ(recorder_.tests[1].samples, 10);
  EXPECT_NEAR(recorder_.tests[1].outputs[0].value, 4.5, 1e-6);
}

TEST_F(TestOfARun, WithTestIterGoesOnAsCaffeDoes) {
  ASSERT_EQ(
      Solve(LabelNet(temp_.path(), 4), "max_iter: 1 test_interval: 1 test_iter: 2", &recorder_),
      "");
  ASSERT_EQ(recorder_.tests.size(), 2U);
  // Records 0..7, then 8, 9, 0..5; all outputs of the net, here also what Reduction leaves.
  EXPECT_NEAR(recorder_.tests[0].outputs.back().value, 3.5, 1e-6);
  EXPECT_NEAR(recorder_.tests[1].outputs.back().value, (8 + 9 + 15) / 8.0, 1e-6);
  EXPECT_EQ(recorder_.tests[0].samples, 8);
}

TEST_F(TestOfARun, ByEpochs) {
  // 10 records in batches of 4: the passes end in iterations 3, 5, 8 and 10.
  ASSERT_EQ(Solve(LabelNet(temp_.path(), 4), "max_epoch: 4 test_interval_epoch: 1", &recorder_),
            "");
  std::vector<int64_t> at;
  for (const TestReport& report : recorder_.tests) at.push_back(report.iteration);
  EXPECT_EQ(at, (std::vector<int64_t>{0, 3, 5, 8, 10}));
}

TEST_F(TestOfARun, NetWithoutTestPhaseIsAWarning) {
  const std::string net =
      "layer { name: 'd' type: 'DummyData' top: 'x' dummy_data_param { shape { dim: 2 dim: 3 } } } "
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' loss_weight: 1 "
      "inner_product_param { num_output: 1 } }";
  EXPECT_EQ(Solve(net, "max_iter: 2 test_interval: 1", &recorder_), "");
  EXPECT_TRUE(recorder_.tests.empty());
  EXPECT_NE(recorder_.log.find("nothing is tested"), std::string::npos) << recorder_.log;
}

TEST_F(TestOfARun, SourceWithoutEndNeedsTestIter) {
  const std::string net =
      "layer { name: 'd' type: 'DummyData' top: 'x' dummy_data_param { shape { dim: 2 dim: 3 } } } "
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' loss_weight: 1 "
      "inner_product_param { num_output: 1 } } "
      "layer { name: 's' type: 'Silence' bottom: 'y' include { phase: TEST } }";
  const std::string error = Solve(net, "max_iter: 2 test_interval: 1", &recorder_);
  EXPECT_NE(error.find("test net #0: no layer of the TEST phase reads a data set with an end; say "
                       "how many batches with test_iter"),
            std::string::npos)
      << error;
}

TEST_F(TestOfARun, TestNetsWithoutAnIntervalAreRefused) {
  const std::string error =
      Solve(LabelNet(temp_.path(), 4), "max_iter: 2 test_net: 'other.prototxt'", &recorder_);
  EXPECT_NE(error.find("no test_interval"), std::string::npos) << error;
}

}  // namespace
}  // namespace crema
