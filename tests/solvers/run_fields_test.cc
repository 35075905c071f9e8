// Fields of the solver for the length of a run, frozen layers and averaged weights.
#include "solvers/run_fields.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/strings.h"
#include "solvers/snapshot_set.h"
#include "support/solver_runs.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::MakeSolver;
using test::OptionsFor;
using test::RunFields;
using test::ValuesOf;

TEST_F(RunFields, EpochsEndARunAndMakeSnapshots) {
  // 13 records, 4 an iteration, twice: epochs end after iterations 2, 4, 5.
  const auto solver = Make("max_epoch: 3 snapshot_epoch: 1 iter_size: 2");
  EXPECT_EQ(solver->config().solver.solver.max_iter(), 5);
  solver->Solve();
  EXPECT_EQ(solver->iteration(), 5);
  EXPECT_EQ(recorder_.snapshots.size(), 3U);
  for (const char* file :
       {"s_iter_2.solverstate", "s_iter_4.solverstate", "s_iter_5.solverstate"}) {
    EXPECT_TRUE(fs::exists(temp_.File(file))) << file;
  }
  EXPECT_NEAR(recorder_.iterations[0].epoch, 8 / 13.0, 1e-9);
  EXPECT_NEAR(recorder_.iterations[4].epoch, 40 / 13.0, 1e-9);
  EXPECT_GT(recorder_.iterations[4].seconds, 0);
  EXPECT_GE(recorder_.iterations[4].wait_seconds, 0);
}

TEST_F(RunFields, EpochsNeedDataWithAnEnd) {
  const std::string text =
      "net_param {\n layer { name: 'd' type: 'DummyData' top: 'x' dummy_data_param { shape { dim: "
      "2 "
      "dim: 3 } } } layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' loss_weight: 1 "
      "inner_product_param { num_output: 1 } } }\nmax_epoch: 2 base_lr: 1 lr_policy: 'fixed'";
  try {
    MakeSolver(text, OptionsFor(&recorder_));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "solver.prototxt:3:1: no layer of the TRAIN phase reads a data set with an end; "
              "max_epoch counts passes over the data: count iterations instead");
  }
}

// A backtracking matcher would take years for this, or overflow the stack.
TEST_F(RunFields, NoPatternTakesLong) {
  const std::string net = StrCat(
      "layer { name: 'd' type: 'DummyData' top: 'x' dummy_data_param { shape { dim: 2 dim: 3 "
      "} } } layer { name: '",
      std::string(100000, 'a'),
      "' type: 'InnerProduct' bottom: 'x' top: 'y' loss_weight: 1 "
      "inner_product_param { num_output: 1 } }");
  const auto make = [&](const std::string& pattern) {
    return MakeSolver(StrCat("net_param { ", net, " }\nmax_iter: 2 base_lr: 1 lr_policy: 'fixed' ",
                             "snapshot_after_train: false freeze: '", pattern, "'"),
                      OptionsFor(&recorder_));
  };
  EXPECT_THROW(make("(a+)+b"), Error);
  EXPECT_THROW(make("(a|aa)*c|(a*)*d"), Error);
  EXPECT_EQ(make("(a+)+")->frozen_layers().size(), 1U);
}

TEST_F(RunFields, ProblemsAreNamedWithTheirLine) {
  ExpectError("\nmax_epoch: -1", "solver.prototxt:2:1: max_epoch is -1; use 0 or more");
  ExpectError("", "missing required field 'max_iter' (or max_epoch)");
  ExpectError("max_iter: 5\nmax_epoch: 2", "solver.prototxt:2:1: max_iter and max_epoch are both");
  ExpectError("max_iter: 5\nema_decay: 1",
              "solver.prototxt:2:1: ema_decay is 1; use 0 (none) or more");
  ExpectError("max_iter: 5\nema_decay: nan", "solver.prototxt:2:1: ema_decay is nan");
  ExpectError("max_iter: 5\nsnapshot_keep: -2", "solver.prototxt:2:1: snapshot_keep is -2");
  ExpectError("max_iter: 5\nfreeze: 'hidden'\nfreeze: 'con[v'",
              "solver.prototxt:3:1: 'con[v' is not a regular expression");
  ExpectError("max_iter: 5\nfreeze: '(?!hid).*'", "has neither backreferences nor lookarounds");
  ExpectError("max_iter: 5\nfreeze: '(h)\\\\1'", "invalid escape sequence: \\1");
  ExpectError("max_iter: 5\nfreeze: '((h{999}){999}){999}'", "is not a regular expression");
  ExpectError(StrCat("max_iter: 5\nfreeze: '", std::string(1001, '('), "'"),
              "solver.prototxt:2:1: the pattern has 1001 characters; write several of up to 1000");
  ExpectError(
      "max_iter: 5\nfreeze: 'hiden'",
      "solver.prototxt:2:1: freeze: 'hiden' is not the whole name of a layer with parameter "
      "blobs (did you mean 'hidden'?); they are: hidden out");
  ExpectError("max_iter: 5\nearly_stop { }",
              "solver.prototxt:2:1: early_stop looks at tests, but this run has no test net");
  ExpectError("max_iter: 5 test_interval: 2\nearly_stop { metric: 'los' }",
              "test net #0 has no output 'los' (did you mean 'loss'?)");
  ExpectError("max_iter: 5 test_interval: 2\nsnapshot_best { metric: 'accuracy' }",
              "solver.prototxt:2:17: snapshot_best.metric: test net #0 has no output 'accuracy'");
  ExpectError("max_iter: 5 test_interval: 2\nearly_stop { patience: 0 }",
              "early_stop.patience is 0; use 1 or more");
}

TEST_F(RunFields, ADrawnSeedCanBeGivenBack) {
  std::string text = Text("max_iter: 2");
  const std::string given = "random_seed: 5";
  text.erase(text.find(given), given.size());
  const auto drawn = MakeSolver(text, OptionsFor(&recorder_));
  EXPECT_LT(drawn->seed(), uint64_t{1} << 53);
  const auto repeated =
      MakeSolver(StrCat(text, " random_seed: ", drawn->seed()), OptionsFor(&recorder_));
  EXPECT_EQ(ValuesOf(repeated->weights()), ValuesOf(drawn->weights()));
}

TEST_F(RunFields, TimeLimits) {
  for (const auto& [text, seconds] : std::vector<std::pair<std::string, int>>{
           {"90s", 90}, {"45m", 2700}, {"2h30m", 9000}, {"1d", 86400}, {"1d1s", 86401}}) {
    EXPECT_EQ(ParseTimeLimit(text).count(), seconds) << text;
  }
  for (const char* text : {"", "90", "s", "m5", "1h1h", "30m2h", "-5s", "1.5h", "0s", "2 h", "1w",
                           "99999999999s", "4000000000d", "1h 5m"}) {
    EXPECT_THROW(ParseTimeLimit(text), Error) << text;
  }
  ExpectError("max_iter: 5\ntime_limit: '1 hour'", "solver.prototxt:2:1: '1 hour' is not a time");
}

TEST_F(RunFields, TimeLimitStopsAndSnapshots) {
  const auto solver = Make("max_iter: 2000000000 time_limit: '1s'");
  solver->Solve();
  EXPECT_TRUE(recorder_.stopped_early);
  EXPECT_EQ(recorder_.snapshots.size(), 1U);
  EXPECT_NE(recorder_.log.find("time_limit: 1s are over"), std::string::npos) << recorder_.log;
  EXPECT_TRUE(fs::exists(temp_.File(StrCat("s_iter_", solver->iteration(), ".solverstate"))));
}

TEST_F(RunFields, FrozenLayersStayAndAreListed) {
  const auto solver = Make("max_iter: 4 weight_decay: 0.1 freeze: 'hid.*' snapshot: 2");
  const auto before = ValuesOf(solver->weights());
  EXPECT_EQ(solver->frozen_layers(), std::vector<std::string>{"hidden"});
  EXPECT_NE(recorder_.log.find("frozen layers: hidden"), std::string::npos) << recorder_.log;
  solver->Solve();
  const auto after = ValuesOf(solver->weights());
  EXPECT_EQ(after[0], before[0]);
  EXPECT_EQ(after[1], before[1]);
  EXPECT_NE(after[2], before[2]);
  EXPECT_TRUE(solver->session().ParameterGradient(0).empty()) << "a gradient nobody needs";
  EXPECT_FALSE(solver->session().ParameterGradient(2).empty());
}

TEST_F(RunFields, FreezingAnEarlierRunStopsItsMomentum) {
  Make("max_iter: 4")->Solve();
  const auto solver = Make("max_iter: 8 freeze: 'hidden'");
  solver->Restore(temp_.File("s_iter_4.solverstate"));
  const auto before = ValuesOf(solver->weights());
  solver->Solve();
  EXPECT_EQ(ValuesOf(solver->weights())[0], before[0]);
}

TEST_F(RunFields, FreezingHoldsBatchNormAndSharedBlobs) {
  const std::string text = R"(net_param {
layer { name: "d" type: "DummyData" top: "x" dummy_data_param { shape { dim: 4 dim: 3 }
  data_filler { type: "gaussian" } } }
layer { name: "a" type: "InnerProduct" bottom: "x" top: "a" param { name: "w" }
  inner_product_param { num_output: 3 bias_term: false weight_filler { type: "xavier" } } }
layer { name: "bn" type: "BatchNorm" bottom: "a" top: "bn" }
layer { name: "b" type: "InnerProduct" bottom: "bn" top: "b" param { name: "w" lr_mult: 1 }
  inner_product_param { num_output: 3 bias_term: false } }
layer { name: "c" type: "InnerProduct" bottom: "b" top: "c"
  inner_product_param { num_output: 1 weight_filler { type: "xavier" } } }
layer { name: "l" type: "EuclideanLoss" bottom: "c" bottom: "c" top: "l" loss_weight: 1 } }
base_lr: 0.1 lr_policy: "fixed" max_iter: 3 random_seed: 1 snapshot_after_train: false
freeze: "a|bn")";
  const auto solver = MakeSolver(text, OptionsFor(&recorder_));
  for (float& mean : solver->weights().blob(1).span<float>()) mean = 0.5F;
  for (float& variance : solver->weights().blob(2).span<float>()) variance = 2;
  for (float& factor : solver->weights().blob(3).span<float>()) factor = 1;
  const auto before = ValuesOf(solver->weights());
  solver->Solve();
  const auto after = ValuesOf(solver->weights());
  for (size_t s = 0; s < 5; ++s) EXPECT_EQ(after[s], before[s]) << s;
}

TEST_F(RunFields, AverageIsWhatTheFormulaSaysAndIsTested) {
  const std::string rest =
      "max_iter: 6 ema_decay: 0.75 test_interval: 6 test_initialization: false";
  const auto solver = Make(rest);
  auto expected = ValuesOf(solver->weights());
  for (int i = 0; i < 6; ++i) {
    solver->Step(1);
    const auto now = ValuesOf(solver->weights());
    for (size_t s = 0; s < now.size(); ++s) {
      for (size_t k = 0; k < now[s].size(); ++k) {
        expected[s][k] = 0.75F * expected[s][k] + 0.25F * now[s][k];
      }
    }
  }
  const auto average = ValuesOf(*solver->averaged_weights());
  for (size_t s = 0; s < average.size(); ++s) {
    for (size_t k = 0; k < average[s].size(); ++k) {
      EXPECT_NEAR(average[s][k], expected[s][k], 1e-6);
    }
  }
  solver->Solve();
  ASSERT_EQ(recorder_.tests.size(), 1U);
  EXPECT_NEAR(EvaluatedLoss("s_iter_6_ema.caffemodel"), recorder_.tests[0].loss, 1e-6);
  EXPECT_GT(std::abs(EvaluatedLoss("s_iter_6.caffemodel") - recorder_.tests[0].loss), 1e-6);
}

TEST_F(RunFields, AverageCopiesStatistics) {
  const std::string text = R"(net_param {
layer { name: "d" type: "DummyData" top: "x" dummy_data_param { shape { dim: 4 dim: 3 }
  data_filler { type: "gaussian" } } }
layer { name: "bn" type: "BatchNorm" bottom: "x" top: "bn" }
layer { name: "c" type: "InnerProduct" bottom: "bn" top: "c" loss_weight: 1
  inner_product_param { num_output: 1 weight_filler { type: "xavier" } } } }
base_lr: 0.1 lr_policy: "fixed" max_iter: 3 random_seed: 1 snapshot_after_train: false
ema_decay: 0.9)";
  const auto solver = MakeSolver(text, OptionsFor(&recorder_));
  solver->Solve();
  for (size_t s = 0; s < 3; ++s) {
    EXPECT_EQ(ValuesOf(*solver->averaged_weights())[s], ValuesOf(solver->weights())[s]) << s;
  }
  EXPECT_NE(ValuesOf(*solver->averaged_weights())[3], ValuesOf(solver->weights())[3]);
}

}  // namespace
}  // namespace crema
