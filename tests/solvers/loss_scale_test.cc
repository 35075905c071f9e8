// Loss scaling: learned parameters do not depend on it, and updates that overflow are skipped.
#include "solvers/loss_scale.h"

#include <gtest/gtest.h>

#include <string>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/solver_state.h"
#include "support/solver_runs.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::MakeSolver;
using test::OptionsFor;
using test::Recorder;
using test::ValuesOf;

LossScaleParameter ScaleParam(float initial, int growth_interval) {
  LossScaleParameter param;
  param.set_initial(initial);
  param.set_growth_interval(growth_interval);
  return param;
}

TEST(LossScale, DoublesAfterGoodUpdatesAndHalvesAfterABadOne) {
  LossScale scale(ScaleParam(1024, 3));
  EXPECT_TRUE(scale.Judge(true));
  EXPECT_TRUE(scale.Judge(true));
  EXPECT_EQ(scale.scale(), 1024);
  EXPECT_TRUE(scale.Judge(true));
  EXPECT_EQ(scale.scale(), 2048);
  EXPECT_TRUE(scale.Judge(true));
  EXPECT_TRUE(scale.Judge(true));
  EXPECT_FALSE(scale.Judge(false));
  EXPECT_EQ(scale.scale(), 1024);
  EXPECT_TRUE(scale.Judge(true));
  EXPECT_TRUE(scale.Judge(true));
  EXPECT_EQ(scale.scale(), 1024);  // counted from the bad one on
  EXPECT_TRUE(scale.Judge(true));
  EXPECT_EQ(scale.scale(), 2048);
  EXPECT_EQ(scale.skipped(), 1);
}

TEST(LossScale, HasALargestAndASmallest) {
  LossScale scale(ScaleParam(1 << 23, 1));
  for (int i = 0; i < 5; ++i) scale.Judge(true);
  EXPECT_EQ(scale.scale(), 1 << 24);
  int halvings = 0;
  for (; !scale.IsSpent(); ++halvings) EXPECT_FALSE(scale.Judge(false));
  EXPECT_EQ(halvings, 24 + 10 + 1);
}

class LossScaleRun : public ::testing::Test {
 protected:
  void SetUp() override { test::WriteRecords(temp_.File("train"), 13); }

  // `weight` is that of the loss.
  std::string Text(const std::string& rest, const std::string& weight = "1") const {
    std::string net = test::RegressionNet(temp_.path(), 4, 3);
    net.insert(net.find("type: \"EuclideanLoss\""), StrCat("loss_weight: ", weight, " "));
    return StrCat("net_param { ", net, " } lr_policy: 'fixed' random_seed: 5 snapshot_prefix: '",
                  temp_.File("s"), "' ", rest);
  }
  std::unique_ptr<Solver> Run(const std::string& text) {
    recorder_ = {};
    auto solver = MakeSolver(text, OptionsFor(&recorder_, 2));
    solver->Solve();
    return solver;
  }

  test::TempDir temp_;
  Recorder recorder_;
};

// Powers of 2 move no bit of the numbers.
TEST_F(LossScaleRun, LearnsTheSameBits) {
  for (const std::string fields :
       {"momentum: 0.9 weight_decay: 0.01 ema_decay: 0.8 ", "type: 'Adam' iter_size: 2 ",
        "clip_gradients: 0.05 ", "clip_gradient_value: 0.01 ", "type: 'LARS' momentum: 0.9 "}) {
    const std::string text = Text(fields + "base_lr: 0.01 max_iter: 7 display: 1 ");
    const auto expected = ValuesOf(Run(text)->weights());
    EXPECT_EQ(recorder_.iterations.back().loss_scale, 0);
    EXPECT_EQ(recorder_.log.find("loss_scale"), std::string::npos);
    EXPECT_EQ(ValuesOf(Run(text + "loss_scale { growth_interval: 3 }")->weights()), expected)
        << fields;
    EXPECT_EQ(recorder_.iterations.front().loss_scale, 65536);
    EXPECT_EQ(recorder_.iterations.back().loss_scale, 4 * 65536);
    EXPECT_EQ(recorder_.iterations.back().skipped_updates, 0);
  }
}

// The gradient of this loss is above the largest float at the first scales.
constexpr const char* kHuge = "1e32";
constexpr const char* kSmallRate =
    "base_lr: 1e-34 momentum: 0.9 ema_decay: 0.5 loss_scale { initial: 16777216 growth_interval: "
    "5 } ";

TEST_F(LossScaleRun, SkipsUpdatesThatOverflow) {
  const auto first =
      MakeSolver(Text(StrCat(kSmallRate, "max_iter: 12"), kHuge), OptionsFor(&recorder_, 2));
  const auto start = ValuesOf(first->weights());
  first->Step(1);
  EXPECT_EQ(ValuesOf(first->weights()), start);
  EXPECT_EQ(ValuesOf(*first->averaged_weights()), start);
  EXPECT_NE(recorder_.log.find("this update is skipped, and the scale is"), std::string::npos)
      << recorder_.log;
  first->Step(11);
  EXPECT_NE(ValuesOf(first->weights()), start);
  const IterationReport& last = recorder_.iterations.back();
  EXPECT_GE(last.skipped_updates, 3);
  EXPECT_LT(last.skipped_updates, 11);
  EXPECT_LT(last.loss_scale, 16777216);
}

TEST_F(LossScaleRun, GoesOnFromItsSnapshots) {
  for (const std::string suffix : {"", ".h5"}) {
#ifndef CREMA_HAVE_HDF5
    if (!suffix.empty()) continue;
#endif
    const std::string text = Text(StrCat(kSmallRate, "max_iter: 12 snapshot: 1 ",
                                         suffix.empty() ? "" : "snapshot_format: HDF5 "),
                                  kHuge);
    const auto expected = ValuesOf(Run(text)->weights());
    const SolverState state = ReadSolverState(temp_.File("s_iter_12.solverstate" + suffix));
    EXPECT_GE(state.loss_scale().skipped_updates(), 3);
    for (const int from : {1, 2, 4, 9}) {
      const auto resumed = MakeSolver(text, OptionsFor(&recorder_, 2));
      resumed->Restore(temp_.File(StrCat("s_iter_", from, ".solverstate", suffix)));
      resumed->Solve();
      EXPECT_EQ(ValuesOf(resumed->weights()), expected) << from;
      const SolverState end = ReadSolverState(temp_.File("s_iter_12.solverstate" + suffix));
      EXPECT_EQ(end.loss_scale().SerializeAsString(), state.loss_scale().SerializeAsString());
    }
  }
}

TEST_F(LossScaleRun, LeavesNoTraceOfATrial) {
  const auto solver =
      MakeSolver(Text(StrCat(kSmallRate, "max_iter: 12"), kHuge), OptionsFor(&recorder_, 2));
  solver->WithoutTrace([&] {
    for (int i = 0; i < 3; ++i) solver->Iterate(1e-34);
  });
  solver->Step(1);
  EXPECT_EQ(recorder_.iterations.front().loss_scale, 16777216);
  EXPECT_EQ(recorder_.iterations.front().skipped_updates, 0);
}

// The loss is finite, but x times its gradient is not.
constexpr const char* kTooLarge = R"(
layer { name: "x" type: "DummyData" top: "x" top: "y" dummy_data_param {
  shape { dim: 4 dim: 3 } shape { dim: 4 dim: 1 }
  data_filler { type: "constant" value: 1e30 } data_filler { type: "constant" value: 1 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 1 } }
layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "y" top: "loss" loss_weight: 1e15 }
)";

TEST_F(LossScaleRun, EndsWhereNoScaleHelps) {
  try {
    Run(StrCat("net_param { ", kTooLarge, " } base_lr: 0.1 lr_policy: 'fixed' max_iter: 100 ",
               "loss_scale { }"));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDiverged) << error.what();
    EXPECT_NE(std::string(error.what()).find("even with a loss scale"), std::string::npos);
  }
}

TEST_F(LossScaleRun, RefusesWhatItCannotTake) {
  for (const std::string wrong :
       {"initial: 0", "initial: 1e9", "initial: nan", "growth_interval: 0"}) {
    try {
      Run(Text(StrCat("base_lr: 0.1 max_iter: 1 loss_scale { ", wrong, " }")));
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find("; use "), std::string::npos) << error.what();
    }
  }
}

constexpr const char* kCenters = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 4 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 5 } }
layer { name: "centers" type: "CenterLoss" bottom: "ip" bottom: "label" top: "loss"
  center_loss_param { num_output: 3 } }
)";

TEST_F(LossScaleRun, RefusesLayersThatLearnByThemselves) {
  const std::string text =
      StrCat("net_param { ", kCenters, " } base_lr: 0.1 lr_policy: 'fixed' max_iter: 1 ");
  EXPECT_NO_THROW(MakeSolver(text, OptionsFor(&recorder_)));
  try {
    MakeSolver(text + "loss_scale { }", OptionsFor(&recorder_));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("rule of its own"), std::string::npos);
  }
}

TEST_F(LossScaleRun, RefusesDamagedStates) {
  Run(Text("base_lr: 0.01 max_iter: 2 loss_scale { }"));
  SolverState state = ReadSolverState(temp_.File("s_iter_2.solverstate"));
  LossScale scale{LossScaleParameter()};
  scale.Restore(state, "here");
  for (const double wrong : {0.0, -1.0, 1e30}) {
    state.mutable_loss_scale()->set_scale(wrong);
    EXPECT_THROW(scale.Restore(state, "here"), Error);
  }
  EXPECT_EQ(scale.scale(), 65536);
}

}  // namespace
}  // namespace crema
