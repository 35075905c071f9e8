// lr_find: does not modify the user's files.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <string>

#include "core/strings.h"
#include "format/caffemodel.h"
#include "runtime/weights.h"
#include "support/error_text.h"
#include "support/net.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::Contains;
using test::ProcessResult;
using test::TempDir;

// Input is noise, the targets are two constants, which the bias of `out` can learn.
constexpr const char* kNoiseNet = R"(
layer { name: "data" type: "DummyData" top: "x" top: "target"
  dummy_data_param { shape { dim: 16 dim: 4 } shape { dim: 16 dim: 2 }
    data_filler { type: "gaussian" mean: 1 } data_filler { value: 3 } } }
layer { name: "hidden" type: "InnerProduct" bottom: "x" top: "h"
  inner_product_param { num_output: 8 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "h" top: "h" }
layer { name: "out" type: "InnerProduct" bottom: "h" top: "y"
  inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "y" bottom: "target" top: "loss" }
)";

class LrFind : public ::testing::Test {
 protected:
  void SetUp() override {
    temp_.Write("net.prototxt", kNoiseNet);
    Solver(
        "base_lr: 0.1 lr_policy: \"fixed\" max_iter: 50 snapshot: 10 snapshot_prefix: \"snap\" "
        "test_iter: 1 test_interval: 10");
  }
  void Solver(const std::string& fields) const {
    temp_.Write("s.prototxt", "net: \"net.prototxt\" random_seed: 3 momentum: 0.9 " + fields);
  }
  ProcessResult Run(std::vector<std::string> flags = {}) const {
    flags.insert(flags.begin(), {test::Bin("lr_find"), "--solver=s.prototxt", "--threads=1"});
    return test::RunProcess(flags, temp_.path());
  }
  // Returns the number after "base_lr: "; 0 if there is none.
  static double Suggestion(const std::string& out) {
    std::smatch match;
    const std::regex pattern("suggestion: base_lr: ([0-9.e+-]+)");
    return std::regex_search(out, match, pattern) ? std::stod(match[1]) : 0;
  }
  TempDir temp_;
};

TEST_F(LrFind, SuggestsARateAndWritesNothing) {
  const size_t files = temp_.FileCount();
  const ProcessResult result = Run();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const double rate = Suggestion(result.out);
  EXPECT_GT(rate, 1e-4) << result.out;
  EXPECT_LT(rate, 0.5) << result.out;
  EXPECT_TRUE(Contains(result.out, "stopped where the loss blew up")) << result.out;
  EXPECT_EQ(temp_.FileCount(), files);
  EXPECT_EQ(Run().out, result.out);  // the same seed, the same search
}

TEST_F(LrFind, ThePolicyOfTheSolverDoesNotMatter) {
  const std::string expected = Run().out;
  Solver("");  // neither base_lr nor max_iter yet
  EXPECT_EQ(Run().out, expected);
  Solver("base_lr: nan lr_policy: \"none\" max_epoch: 3 early_stop { } snapshot_prefix: \"/no/x\"");
  EXPECT_EQ(Run().out, expected);
}

TEST_F(LrFind, WritesTheLosses) {
  const ProcessResult result =
      Run({"--csv=f.csv", "--start_lr=1e-6", "--end_lr=1e-4", "--iterations=21"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::vector<std::string> lines = Split(temp_.Read("f.csv"), '\n');
  ASSERT_EQ(lines.size(), 23U);  // names, 21 rows, the end
  EXPECT_EQ(lines[0], "iteration,lr,loss,smoothed_loss");
  EXPECT_TRUE(lines[1].starts_with("0,1e-06,")) << lines[1];
  EXPECT_TRUE(lines[11].starts_with("10,1e-05,")) << lines[11];
  EXPECT_TRUE(lines[21].starts_with("20,0.0001,")) << lines[21];
}

TEST_F(LrFind, SaysWhenTheLossDoesNotFall) {
  const ProcessResult result = Run({"--start_lr=1e-12", "--end_lr=1e-10"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Contains(result.out, "no suggestion: the loss fell at no rate")) << result.out;
}

TEST_F(LrFind, StartsFromWeights) {
  const auto plan = test::PlanText(kNoiseNet);
  WriteCaffemodel(Weights::Make(*plan, 77)->Export(*plan), temp_.File("w.caffemodel"));
  Run({"--csv=fresh.csv"});
  const ProcessResult result = Run({"--csv=tuned.csv", "--weights=w.caffemodel"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(temp_.Read("fresh.csv"), temp_.Read("tuned.csv"));
  EXPECT_EQ(Run({"--weights=gone.caffemodel"}).exit_code, 2);
}

TEST_F(LrFind, FilesThatCannotBeWrittenEndItBeforeTheTraining) {
  for (const std::string flag : {"--csv=no/such/f.csv", "--png=no/such/f.png"}) {
#ifndef CREMA_HAVE_OPENCV
    if (flag.starts_with("--png")) continue;
#endif
    const ProcessResult result = Run({flag});
    EXPECT_EQ(result.exit_code, 3) << result.err;
    EXPECT_TRUE(Contains(result.err, "no/such")) << result.err;
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(LrFind, RefusesFlagsOutOfRange) {
  for (const std::string flag : {"--start_lr=0", "--start_lr=nan", "--end_lr=1e-9", "--end_lr=inf",
                                 "--iterations=3", "--iterations=-5", "--threads=-1"}) {
    const ProcessResult result = Run({flag});
    EXPECT_EQ(result.exit_code, 2) << flag << result.out;
    EXPECT_TRUE(Contains(result.err, "error: ")) << flag;
  }
  temp_.Write("net.prototxt", "layer { name: 'x' type: 'Nothing' }");
  EXPECT_EQ(Run().exit_code, 2);
}

#ifdef CREMA_HAVE_OPENCV
TEST_F(LrFind, DrawsTheLosses) {
  const ProcessResult result = Run({"--png=f.png"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(temp_.Read("f.png").substr(1, 3), "PNG");
}
#endif

}  // namespace
}  // namespace crema
