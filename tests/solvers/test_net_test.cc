// Tests of a run: how often, on what, weighted how.
#include "solvers/test_net.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"
#include "solvers/parallel_run.h"
#include "support/memory_ranks.h"
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

// The mean of the labels shows which samples were used, and with which weights.
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

// The same in several ranks; records what rank 0 reports.
std::string SolveInRanks(int ranks, const std::string& net, const std::string& rest,
                         Recorder* recorder) {
  if (ranks == 1) return Solve(net, rest, recorder);
  const std::string text = "net_param { " + net + " }" + kPolicy + kNoFiles + rest;
  const auto errors = test::RunRanks(ranks, {}, [&](ProcessRanks& run) {
    Recorder of_others;
    const bool is_first = run.rank() == 0;
    SolverOptions options = OptionsFor(is_first ? recorder : &of_others);
    options.ranks = &run;
    options.rank = run.rank();
    RunConfig config = test::ConfigOf(text);
    if (!is_first) config = ConfigOfFollower(std::move(config), true);
    Solver solver(std::move(config), test::TestRegistry(), std::move(options));
    solver.Solve();
    EXPECT_TRUE(is_first || of_others.tests.empty());
    // The last rank has run passes of a test.
    EXPECT_TRUE(run.rank() + 1 < ranks || solver.test_session(0).step() > 0);
  });
  return errors[0];
}

class TestOfARun : public ::testing::Test {
 protected:
  void SetUp() override { test::WriteRecords(temp_.File("test"), 10); }

  TempDir temp_;
  Recorder recorder_;
};

// By the number of ranks that divide the batches.
class DividedTestOfARun : public TestOfARun, public ::testing::WithParamInterface<int> {
 protected:
  static std::string Solve(const std::string& net, const std::string& rest, Recorder* recorder) {
    return SolveInRanks(GetParam(), net, rest, recorder);
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, DividedTestOfARun, ::testing::Values(1, 2, 3));

TEST_P(DividedTestOfARun, WithoutTestIterSeesEverySampleOnce) {
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

TEST_P(DividedTestOfARun, BatchLargerThanTheData) {
  ASSERT_EQ(Solve(LabelNet(temp_.path(), 64), "max_iter: 1 test_interval: 1", &recorder_), "");
  ASSERT_EQ(recorder_.tests.size(), 2U);
  EXPECT_EQ(recorder_.tests[1].samples, 10);
  EXPECT_NEAR(recorder_.tests[1].outputs[0].value, 4.5, 1e-6);
}

TEST_P(DividedTestOfARun, WithTestIterGoesOnAsCaffeDoes) {
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

TEST_F(TestOfARun, AnInputLayerIsNoDataSet) {
  const std::string error = Solve(
      "layer { name: 'd' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } } "
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' loss_weight: 1 "
      "inner_product_param { num_output: 1 } } "
      "layer { name: 's' type: 'Silence' bottom: 'y' include { phase: TEST } }",
      "max_iter: 2 test_interval: 1", &recorder_);
  EXPECT_NE(error.find("this net reads no data set: its data come from an Input layer"),
            std::string::npos)
      << error;
}

TEST_F(TestOfARun, TestNetsWithoutAnIntervalAreRefused) {
  const std::string error =
      Solve(LabelNet(temp_.path(), 4), "max_iter: 2 test_net: 'other.prototxt'", &recorder_);
  EXPECT_NE(error.find("no test_interval"), std::string::npos) << error;
}

// Rows of a blob, one record a batch.
void WriteRows(const std::string& path, int columns,
               const std::vector<std::vector<float>>& records) {
  LmdbWriter writer(path);
  for (size_t i = 0; i < records.size(); ++i) {
    Datum datum;
    datum.set_channels(1);
    datum.set_height(static_cast<int>(records[i].size()) / columns);
    datum.set_width(columns);
    for (const float value : records[i]) datum.add_float_data(value);
    writer.Put(std::to_string(i), datum.SerializeAsString());
  }
  writer.Close();
}

TEST_F(TestOfARun, ThatIsDividedStopsInAllRanks) {
  const std::string text =
      StrCat("net_param { ", LabelNet(temp_.path(), 1), " }", kPolicy,
             "max_iter: 9 test_interval: ", "2 snapshot_prefix: '", temp_.File("s"), "'");
  std::string log;
  const auto errors = test::RunRanks(2, {}, [&](ProcessRanks& run) {
    Recorder recorder;
    SolverOptions options = OptionsFor(&recorder);
    options.ranks = &run;
    options.rank = run.rank();
    RunConfig config = test::ConfigOf(text);
    if (run.rank() > 0) {
      Solver(ConfigOfFollower(config, true), test::TestRegistry(), std::move(options)).Solve();
      return;
    }
    int polls = 0;  // 5 batches, 2 iterations, then batches of the second test
    options.poll = [&polls] { return ++polls > 8 ? Request::kStop : Request::kNone; };
    Solver solver(config, test::TestRegistry(), std::move(options));
    solver.Solve();
    EXPECT_TRUE(recorder.stopped_early);
    EXPECT_EQ(recorder.tests.size(), 1U);
    EXPECT_EQ(solver.iteration(), 2);
    ASSERT_EQ(recorder.snapshots.size(), 1U);
    EXPECT_EQ(recorder.snapshots[0], temp_.File("s_iter_2.solverstate"));
  });
  EXPECT_EQ(errors, std::vector<std::string>(2));
}

TEST_F(TestOfARun, ThatIsDividedEndsAllRanksIfOneCannotReadItsPart) {
  LmdbWriter writer(temp_.File("broken"));
  for (int i = 0; i < 10; ++i) {
    Datum datum;
    datum.set_channels(1);
    datum.set_height(2);
    datum.set_width(2);
    datum.set_data(std::string(i == 7 ? 3 : 4, '\1'));  // in the part of the second rank
    writer.Put(StrCat(i), datum.SerializeAsString());
  }
  writer.Close();
  std::string net = LabelNet(temp_.path(), 1);
  const size_t at = net.find("/test'");
  net.replace(at, 6, "/broken'");
  // Rank 0 does not come to the record by itself: its training reads 0, 2, 4.
  const std::string error = SolveInRanks(2, net, "max_iter: 3 test_interval: 2", &recorder_);
  EXPECT_TRUE(error.starts_with("rank 1 on host1: ")) << error;
}

// Records of which a threshold on their number lets some through.
std::string FilterNet(const std::string& folder, int batch) {
  return LabelNet(folder, batch) + R"(
layer { name: "sel" type: "Threshold" bottom: "label" top: "sel" include { phase: TEST }
  threshold_param { threshold: 5.5 } }
layer { name: "some" type: "Filter" bottom: "label" bottom: "sel" top: "some"
  include { phase: TEST } }
)";
}

TEST_P(DividedTestOfARun, AnOutputWhoseSizeChangesIsLeftOutByName) {
  // None of 0..4 passes, four of 5..9 do.
  for (const char* batches : {"", " test_iter: 2"}) {
    Recorder recorder;
    ASSERT_EQ(Solve(FilterNet(temp_.path(), 5), StrCat("max_iter: 2 test_interval: 1", batches),
                    &recorder),
              "");
    ASSERT_EQ(recorder.tests.size(), 3U);
    for (const TestReport& report : recorder.tests) {
      const auto named = [&](const std::string& blob) {
        return std::ranges::count(report.outputs, blob, &OutputValue::blob);
      };
      EXPECT_EQ(named("some"), 0);
      EXPECT_EQ(named("mean"), 1);
      EXPECT_NEAR(std::ranges::find(report.outputs, "mean", &OutputValue::blob)->value, 4.5, 1e-6);
    }
    const std::string said = "test net #0: output 'some' has another size in some batches";
    const size_t at = recorder.log.find(said);
    ASSERT_NE(at, std::string::npos) << recorder.log;
    EXPECT_EQ(recorder.log.find(said, at + 1), std::string::npos) << recorder.log;
  }
}

TEST_P(DividedTestOfARun, OneNumberASampleIsAveragedOverTheSamples) {
  const std::string net = R"(
layer { name: "sums" type: "Reduction" bottom: "data" top: "sums" include { phase: TEST }
  reduction_param { axis: 1 } }
)";
  double expected = 0;
  for (int i = 0; i < 10; ++i) expected += (4 * i * 9 + 240) / 10.0;
  for (const int batch : {4, 5, 10, 1, 64}) {  // with and without a smaller last batch
    Recorder recorder;
    ASSERT_EQ(Solve(LabelNet(temp_.path(), batch) + net, "max_iter: 1 test_interval: 1", &recorder),
              "");
    ASSERT_EQ(recorder.tests.size(), 2U);
    ASSERT_EQ(recorder.tests[1].outputs.size(), 2U) << batch;
    EXPECT_EQ(recorder.tests[1].outputs[1].blob, "sums");
    EXPECT_NEAR(recorder.tests[1].outputs[1].value, expected, 1e-3) << batch;
  }
}

TEST_P(DividedTestOfARun, OneNumberAClassIsNoBatchOfTheSameLength) {
  // Four numbers, four samples a batch.
  const std::string net = R"(
layer { name: "columns" type: "Permute" bottom: "data" top: "columns" include { phase: TEST }
  permute_param { order: 2 order: 3 order: 0 order: 1 } }
layer { name: "flat" type: "Reshape" bottom: "columns" top: "flat" include { phase: TEST }
  reshape_param { shape { dim: 4 dim: -1 } } }
layer { name: "pixel" type: "Reduction" bottom: "flat" top: "pixel" include { phase: TEST }
  reduction_param { axis: 1 operation: MEAN } }
)";
  Recorder recorder;
  ASSERT_EQ(Solve(LabelNet(temp_.path(), 4) + net, "max_iter: 1 test_interval: 1", &recorder), "");
  ASSERT_EQ(recorder.tests.at(1).outputs.size(), 5U);
  for (size_t p = 0; p < 4; ++p) {
    EXPECT_NEAR(recorder.tests[1].outputs[1 + p].value, 40.5 + 40.0 * static_cast<double>(p), 1e-3);
  }
}

class DetectionTestOfARun : public DividedTestOfARun {
 protected:
  void SetUp() override {
    // Image, label, score, box; image, label, instance, box, difficult. Both objects of label 1 are
    // found, after a wrong box; that of label 2 is not.
    WriteRows(temp_.File("found"), 7,
              {{0, 1, 0.9F, 0, 0, 1, 1, -1, -1, 0, 0, 0, 0, 0},
               {0, 1, 0.95F, 5, 5, 6, 6, 0, 1, 0.5F, 0, 0, 1, 1}});
    WriteRows(temp_.File("objects"), 8,
              {{0, 1, 0, 0, 0, 1, 1, 0, 0, 2, 0, 3, 3, 4, 4, 0},
               {0, 1, 0, 0, 0, 1, 1, 0, -1, 0, 0, 0, 0, 0, 0, 0}});
  }
  std::string Net() const {
    const auto data = [&](const std::string& name) {
      return StrCat("layer { name: '", name, "' type: 'Data' top: '", name,
                    "' include { phase: TEST } data_param { source: '", temp_.File(name),
                    "' batch_size: 1 backend: LMDB } } ");
    };
    return data("found") + data("objects") + R"(
layer { name: "d" type: "DummyData" top: "x" dummy_data_param { shape { dim: 2 dim: 3 } }
  include { phase: TRAIN } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "y" loss_weight: 1
  inner_product_param { num_output: 1 } include { phase: TRAIN } }
layer { name: "eval" type: "DetectionEvaluate" bottom: "found" bottom: "objects" top: "eval"
  detection_evaluate_param { num_classes: 3 background_label_id: 0 } include { phase: TEST } }
)";
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, DetectionTestOfARun, ::testing::Values(1, 2));

TEST_P(DetectionTestOfARun, GivesTheMeanAveragePrecision) {
  const std::pair<const char*, double> rules[] = {
      {"Integral", 0.25 + 1.0 / 3}, {"MaxIntegral", 2.0 / 3}, {"11point", 2.0 / 3}};
  for (const auto& [rule, precision] : rules) {
    Recorder recorder;
    ASSERT_EQ(Solve(Net(),
                    StrCat("max_iter: 2 test_interval: 1 test_iter: 2 eval_type: 'detection' "
                           "show_per_class_result: true early_stop { metric: 'eval' } "
                           "ap_version: '",
                           rule, "'"),
                    &recorder),
              "");
    ASSERT_EQ(recorder.tests.size(), 3U);
    for (const TestReport& report : recorder.tests) {
      ASSERT_EQ(report.outputs.size(), 1U);
      EXPECT_EQ(report.outputs[0].blob, "eval");
      EXPECT_NEAR(report.outputs[0].value, precision / 2, 1e-6) << rule;
    }
    EXPECT_NE(recorder.log.find("class2: 0\n"), std::string::npos) << recorder.log;
    EXPECT_EQ(recorder.log.find("has no effect"), std::string::npos) << recorder.log;
    EXPECT_EQ(recorder.log.find("another size"), std::string::npos) << recorder.log;
  }
}

TEST_P(DetectionTestOfARun, UnknownRulesAreRefused) {
  const std::string error =
      Solve(Net(), "max_iter: 2 test_interval: 1 test_iter: 2 ap_version: 'x' eval_type: 'y'",
            &recorder_);
  EXPECT_NE(error.find("unknown ap_version 'x'"), std::string::npos) << error;
  EXPECT_NE(error.find("unknown eval_type 'y'"), std::string::npos) << error;
}

}  // namespace
}  // namespace crema
