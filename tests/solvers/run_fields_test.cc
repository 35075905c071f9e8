// Fields of the solver that say how long a run is, what it keeps and what it holds still.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "core/strings.h"
#include "format/caffemodel.h"
#include "runtime/evaluate.h"
#include "solvers/snapshot_set.h"
#include "solvers/snapshot_space.h"
#include "support/solver_runs.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::MakeSolver;
using test::OptionsFor;
using test::Recorder;
using test::TempDir;
using test::ValuesOf;

class RunFields : public ::testing::Test {
 protected:
  void SetUp() override {
    test::WriteRecords(temp_.File("train"), 13);
    test::WriteRecords(temp_.File("test"), 7);
  }

  // In one line, so that `rest` begins in the first.
  std::string Text(const std::string& rest) const {
    std::string net = test::RegressionNet(temp_.path(), 4, 3);
    std::ranges::replace(net, '\n', ' ');
    return StrCat("net_param { ", net, " } ",
                  "base_lr: 0.05 lr_policy: 'fixed' momentum: 0.9 random_seed: 5 ",
                  "snapshot_prefix: '", temp_.File("s"), "' ", rest);
  }
  std::unique_ptr<Solver> Make(const std::string& rest) {
    return MakeSolver(Text(rest), OptionsFor(&recorder_));
  }
  std::string ErrorOf(const std::string& rest) {
    try {
      Make(rest)->Solve();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  void ExpectError(const std::string& rest, const std::string& expected) {
    const std::string error = ErrorOf(rest);
    EXPECT_NE(error.find(expected), std::string::npos) << rest << "\n" << error;
  }
  double EvaluatedLoss(const std::string& model) const {
    const NetFile net = ParseNet(test::RegressionNet(temp_.path(), 4, 3), "net.prototxt");
    EvaluationOptions options;
    options.threads = 1;
    return Evaluate(net, ReadCaffemodel(temp_.File(model)), model, test::TestRegistry(), options)
        .loss;
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(temp_.path())) {
      if (entry.is_regular_file()) names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }

  TempDir temp_;
  Recorder recorder_;
};

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

TEST_F(RunFields, ProblemsAreNamedWithTheirLine) {
  ExpectError("\nmax_epoch: -1", "solver.prototxt:2:1: max_epoch is -1; use 0 or more");
  ExpectError("", "missing required field 'max_iter' (or max_epoch)");
  ExpectError("max_iter: 5\nmax_epoch: 2", "solver.prototxt:2:1: max_iter and max_epoch are both");
  ExpectError("max_iter: 5\nema_decay: 1", "solver.prototxt:2:1: is 1; use 0 (none) or more");
  ExpectError("max_iter: 5\nema_decay: nan", "solver.prototxt:2:1: is nan");
  ExpectError("max_iter: 5\nsnapshot_keep: -2", "solver.prototxt:2:1: snapshot_keep is -2");
  ExpectError("max_iter: 5\nfreeze: 'hidden'\nfreeze: 'con[v'",
              "solver.prototxt:3:1: 'con[v' is not a regular expression");
  ExpectError("max_iter: 5\nfreeze: 'hiden'",
              "solver.prototxt:2:1: freeze: 'hiden' is the whole name of no layer with learned "
              "blobs (did you mean 'hidden'?); they are: hidden out");
  ExpectError("max_iter: 5\nearly_stop { }",
              "solver.prototxt:2:1: early_stop looks at tests, but this run has no test net");
  ExpectError("max_iter: 5 test_interval: 2\nearly_stop { metric: 'los' }",
              "test net #0 has no output 'los' (did you mean 'loss'?)");
  ExpectError("max_iter: 5 test_interval: 2\nsnapshot_best { metric: 'accuracy' }",
              "solver.prototxt:2:17: test net #0 has no output 'accuracy'");
  ExpectError("max_iter: 5 test_interval: 2\nearly_stop { patience: 0 }", "is 0; use 1 or more");
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
  EXPECT_TRUE(solver->session().LearnedGradient(0).empty()) << "a gradient nobody needs";
  EXPECT_FALSE(solver->session().LearnedGradient(2).empty());
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

TEST_F(RunFields, BestModelIsThatOfTheBestTest) {
  const auto solver =
      Make("max_iter: 12 test_interval: 2 snapshot_best { metric: 'loss' } ema_decay: 0.5");
  solver->Solve();
  ASSERT_FALSE(recorder_.bests.empty());
  double least = 1e30;
  for (const TestReport& report : recorder_.tests) least = std::min(least, report.loss);
  EXPECT_EQ(recorder_.bests.back().metric, "test#0:loss");
  EXPECT_NEAR(recorder_.bests.back().value, least, 1e-7);
  EXPECT_EQ(recorder_.bests.back().model, temp_.File("s_best.caffemodel"));
  EXPECT_NEAR(EvaluatedLoss("s_best.caffemodel"), least, 1e-6);
}

TEST_F(RunFields, EarlyStopEndsTheRunWithASnapshot) {
  // Nothing is learned, so no test is better than the first.
  const auto solver = Make(
      "max_iter: 1000 test_interval: 5 freeze: '.*' early_stop { patience: 3 min_delta: 0.001 }");
  solver->Solve();
  EXPECT_EQ(solver->iteration(), 15);
  EXPECT_TRUE(recorder_.stopped_early);
  EXPECT_NE(recorder_.log.find("early_stop: test#0:loss was best at iteration 0"),
            std::string::npos)
      << recorder_.log;
  EXPECT_TRUE(fs::exists(temp_.File("s_iter_15.solverstate")));
  // Going on from there with more patience counts the last test once.
  const auto resumed =
      Make("max_iter: 1000 test_interval: 5 freeze: '.*' early_stop { patience: 5 }");
  resumed->Restore(temp_.File("s_iter_15.solverstate"));
  resumed->Solve();
  EXPECT_EQ(resumed->iteration(), 25);
}

TEST_F(RunFields, EarlyStopSaysThatTestsWereNeverNumbers) {
  std::string text =
      Text("max_iter: 100 test_interval: 2 early_stop { metric: 'bad' patience: 3 }");
  const std::string log_layers =
      "layer { name: 'log' type: 'Log' bottom: 'label' top: 'log' log_param { shift: -100 } "
      "include { phase: TEST } } layer { name: 'bad' type: 'Reduction' bottom: 'log' top: 'bad' "
      "loss_weight: 1 include { phase: TEST } } ";
  text.insert(text.find("} base_lr"), log_layers);
  MakeSolver(text, OptionsFor(&recorder_))->Solve();
  EXPECT_NE(recorder_.log.find("was never a number in 3 tests"), std::string::npos)
      << recorder_.log;
  const std::string said = "the loss of the test at iteration";
  const size_t at = recorder_.log.find(said);
  ASSERT_NE(at, std::string::npos) << recorder_.log;
  EXPECT_EQ(recorder_.log.find(said, at + 1), std::string::npos) << recorder_.log;
}

TEST_F(RunFields, RulesThatNoTestReachesAreToldSo) {
  Make("max_iter: 3 test_interval: 5 early_stop { } snapshot_best { }");
  for (const char* rule : {"early_stop", "snapshot_best"}) {
    EXPECT_NE(recorder_.log.find(StrCat(rule,
                                        " never acts: the first test after training began "
                                        "would be at iteration 5, but the run ends at 3")),
              std::string::npos)
        << recorder_.log;
  }
  recorder_.log.clear();
  Make("max_iter: 5 test_interval: 5 early_stop { }");
  EXPECT_EQ(recorder_.log.find("never acts"), std::string::npos) << recorder_.log;
}

TEST_F(RunFields, TestsSayTheirEpochAlsoAfterAResume) {
  Make("max_iter: 6 test_interval: 3 snapshot: 3")->Solve();
  ASSERT_EQ(recorder_.tests.size(), 3U);
  EXPECT_EQ(recorder_.tests[0].epoch, 0);
  EXPECT_GT(recorder_.tests[1].epoch, 0);
  EXPECT_DOUBLE_EQ(recorder_.tests[1].epoch, recorder_.iterations[2].epoch);
  Recorder again;
  const auto resumed = MakeSolver(Text("max_iter: 6 test_interval: 3"), OptionsFor(&again));
  resumed->Restore(temp_.File("s_iter_3.solverstate"));
  resumed->Solve();
  ASSERT_EQ(again.tests.size(), 2U);
  EXPECT_DOUBLE_EQ(again.tests[0].epoch, recorder_.tests[1].epoch);
}

TEST_F(RunFields, ABestModelThatCouldNotBeWrittenIsNotTheBest) {
  const std::string away = temp_.File("away");
  fs::create_directory(away);
  // Nothing is learned: only the first test can be the best, and its file cannot be written.
  std::string text =
      Text("max_iter: 6 test_interval: 2 freeze: '.*' snapshot_best { metric: 'loss' mode: MIN }");
  const std::string prefix = temp_.File("s");
  text.replace(text.find("'" + prefix + "'"), prefix.size() + 2, "'" + away + "/s'");
  class Remover : public Recorder {
   public:
    void OnStart(const std::string&, int64_t) override { fs::rename(folder, folder + ".moved"); }
    void OnIteration(const IterationReport& report) override {
      if (report.iteration == 0) fs::rename(folder + ".moved", folder);
    }
    std::string folder;
  };
  Remover remover;
  remover.folder = away;
  MakeSolver(text, OptionsFor(&remover))->Solve();
  EXPECT_NE(remover.log.find("snapshot_best: "), std::string::npos) << remover.log;
  ASSERT_EQ(remover.bests.size(), 1U);
  EXPECT_TRUE(fs::exists(away + "/s_best.caffemodel"));
}

TEST_F(RunFields, OldSnapshotsGoAndNothingElse) {
  // Of another run, of a later iteration, a model alone, the user's own files.
  for (const char* name : {"s_iter_2.caffemodel", "s_iter_x.solverstate", "s_iter_03.solverstate",
                           "other_iter_2.solverstate", "s_iter_999.solverstate",
                           "s_iter_999.caffemodel", "s_best.caffemodel"}) {
    temp_.Write(name, "mine");
  }
  const std::vector<std::string> mine = Files();
  // An old one goes also where it is damaged.
  temp_.Write("s_iter_1.solverstate", "damaged");
  temp_.Write("s_iter_1.caffemodel", "damaged");
  Make("max_iter: 20 snapshot: 4 snapshot_keep: 2 ema_decay: 0.9")->Solve();
  std::vector<std::string> expected = mine;
  for (const char* iteration : {"16", "20"}) {
    for (const char* end : {".caffemodel", ".solverstate", "_ema.caffemodel"}) {
      expected.push_back(StrCat("s_iter_", iteration, end));
    }
  }
  std::ranges::sort(expected);
  EXPECT_EQ(Files(), expected);
}

TEST_F(RunFields, KeepingOneKeepsTheNewest) {
  Make("max_iter: 6 snapshot: 2 snapshot_keep: 1")->Solve();
  EXPECT_EQ(Files(), (std::vector<std::string>{"s_iter_6.caffemodel", "s_iter_6.solverstate"}));
}

TEST_F(RunFields, SnapshotThatCannotBeWrittenIsToldAndTheRunGoesOn) {
  const std::string away = temp_.File("away");
  fs::create_directory(away);
  const std::string rest = StrCat("max_iter: 6 snapshot: 2 test_interval: 1 snapshot_best { }");
  std::string text = Text(rest);
  const std::string prefix = temp_.File("s");
  text.replace(text.find("'" + prefix + "'"), prefix.size() + 2, "'" + away + "/s'");
  class Remover : public Recorder {
   public:
    void OnIteration(const IterationReport& report) override {
      if (report.iteration == 2) fs::rename(folder, folder + ".moved");
      if (report.iteration == 5) fs::rename(folder + ".moved", folder);
    }
    std::string folder;
  };
  Remover remover;
  remover.folder = away;
  MakeSolver(text, OptionsFor(&remover))->Solve();
  EXPECT_NE(remover.log.find("no snapshot at iteration 4: "), std::string::npos) << remover.log;
  EXPECT_NE(remover.log.find("training goes on"), std::string::npos) << remover.log;
  EXPECT_TRUE(fs::exists(away + "/s_iter_2.solverstate"));
  EXPECT_FALSE(fs::exists(away + "/s_iter_4.solverstate"));
  EXPECT_TRUE(fs::exists(away + "/s_iter_6.solverstate"));
}

TEST_F(RunFields, LastSnapshotThatCannotBeWrittenEndsTheRunWithTheReason) {
  const std::string away = temp_.File("away");
  fs::create_directory(away);
  std::string text = Text("max_iter: 4");
  const std::string prefix = temp_.File("s");
  text.replace(text.find("'" + prefix + "'"), prefix.size() + 2, "'" + away + "/s'");
  const auto solver = MakeSolver(text, OptionsFor(&recorder_));
  solver->Step(3);
  fs::remove_all(away);
  try {
    solver->Snapshot();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIoFailure);
    EXPECT_NE(std::string(error.what()).find("does not exist"), std::string::npos);
  }
}

TEST_F(RunFields, RoomForSnapshotsIsAskedForFirst) {
  const auto solver = Make("max_iter: 100 snapshot: 10 ema_decay: 0.9");
  const SnapshotNeed need = SnapshotNeedOf(solver->config().solver.solver, solver->plan(), 1, 0, 0);
  solver->Step(10);
  uint64_t written = 0;
  for (const std::string& name : Files()) written += fs::file_size(temp_.File(name));
  EXPECT_GE(need.once, written);
  EXPECT_LT(need.once, written + (1 << 17));
  EXPECT_EQ(need.all, need.once * 10);

  Recorder log;
  CheckSnapshotSpace(need, need.all, "p", log);
  EXPECT_EQ(log.log, "");
  CheckSnapshotSpace(need, need.all - 1, "p", log);
  EXPECT_NE(log.log.find("keep fewer with snapshot_keep"), std::string::npos) << log.log;
  try {
    CheckSnapshotSpace(need, need.once - 1, "p", log);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(ExitCode(error.code()), 3);
  }
  const auto few = Make("max_iter: 100 snapshot: 10 snapshot_keep: 2");
  const SnapshotNeed kept = SnapshotNeedOf(few->config().solver.solver, few->plan(), 1, 0, 0);
  EXPECT_EQ(kept.all, kept.once * 3);
}

}  // namespace
}  // namespace crema
