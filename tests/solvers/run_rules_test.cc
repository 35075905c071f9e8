// Fields of the solver for kept snapshots and for an early end.
#include <gtest/gtest.h>

#include <filesystem>

#include "core/strings.h"
#include "solvers/run_fields.h"
#include "solvers/snapshot_set.h"
#include "support/solver_runs.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::MakeSolver;
using test::OptionsFor;
using test::Recorder;

class RunRules : public test::RunFields {};

TEST_F(RunRules, BestModelIsThatOfTheBestTest) {
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

TEST_F(RunRules, EarlyStopEndsTheRunWithASnapshot) {
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
  // A run resumed with more patience counts the last test once.
  const auto resumed =
      Make("max_iter: 1000 test_interval: 5 freeze: '.*' early_stop { patience: 5 }");
  resumed->Restore(temp_.File("s_iter_15.solverstate"));
  resumed->Solve();
  EXPECT_EQ(resumed->iteration(), 25);
}

TEST_F(RunRules, EarlyStopSaysThatTestsWereNeverNumbers) {
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

TEST_F(RunRules, RulesWithoutTestsAreWarnedAbout) {
  Make("max_iter: 3 test_interval: 5 early_stop { } snapshot_best { }");
  for (const char* rule : {"early_stop", "snapshot_best"}) {
    EXPECT_NE(recorder_.log.find(
                  StrCat(rule,
                         " never acts on what was learned: the first test after training began "
                         "would be at iteration 5, but the run ends at 3")),
              std::string::npos)
        << recorder_.log;
  }
  recorder_.log.clear();
  Make("max_iter: 5 test_interval: 5 early_stop { }");
  EXPECT_EQ(recorder_.log.find("never acts"), std::string::npos) << recorder_.log;
}

TEST_F(RunRules, TestsSayTheirEpochAlsoAfterAResume) {
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

TEST_F(RunRules, ABestModelThatCouldNotBeWrittenIsNotTheBest) {
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

TEST_F(RunRules, OldSnapshotsGoAndNothingElse) {
  // Files of another run, of a later iteration, a model alone, the user's own files.
  for (const char* name : {"s_iter_2.caffemodel", "s_iter_x.solverstate", "s_iter_03.solverstate",
                           "other_iter_2.solverstate", "s_iter_999.solverstate",
                           "s_iter_999.caffemodel", "s_best.caffemodel"}) {
    temp_.Write(name, "mine");
  }
  const std::vector<std::string> mine = Files();
  // A damaged old one is removed too.
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

TEST_F(RunRules, RemovedSnapshotsAreLogged) {
  Make("max_iter: 3 snapshot: 1 snapshot_keep: 2")->Solve();
  EXPECT_NE(recorder_.log.find(StrCat("snapshot_keep: removed ", temp_.File("s_iter_1.solverstate"),
                                      " and its model")),
            std::string::npos)
      << recorder_.log;
  EXPECT_EQ(recorder_.log.find("removed " + temp_.File("s_iter_2")), std::string::npos);
}

TEST_F(RunRules, DropsOfPlateauAndTheAverageAreInTheLog) {
  std::string text = Text(
      "gamma: 0.1 plateau { metric: 'loss' patience: 1 min_delta: 1e9 } max_iter: 4 "
      "test_interval: 2 ema_decay: 0.5");
  text.replace(text.find("'fixed'"), 7, "'plateau'");
  MakeSolver(text, OptionsFor(&recorder_))->Solve();
  for (const char* said : {"plateau: nothing better for a while; the learning rate is 0.005 from "
                           "iteration 2",
                           "ema_decay 0.5: tests and the best model use averaged weights"}) {
    EXPECT_NE(recorder_.log.find(said), std::string::npos) << said << "\n" << recorder_.log;
  }
}

TEST_F(RunRules, KeepingOneKeepsTheNewest) {
  Make("max_iter: 6 snapshot: 2 snapshot_keep: 1")->Solve();
  EXPECT_EQ(Files(), (std::vector<std::string>{"s_iter_6.caffemodel", "s_iter_6.solverstate"}));
}

TEST_F(RunRules, AFailedSnapshotIsReportedAndTheRunContinues) {
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
  EXPECT_NE(remover.log.find("training continues"), std::string::npos) << remover.log;
  EXPECT_TRUE(fs::exists(away + "/s_iter_2.solverstate"));
  EXPECT_FALSE(fs::exists(away + "/s_iter_4.solverstate"));
  EXPECT_TRUE(fs::exists(away + "/s_iter_6.solverstate"));
}

TEST_F(RunRules, LastSnapshotThatCannotBeWrittenEndsTheRunWithTheReason) {
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

TEST_F(RunRules, RoomForSnapshotsIsAskedForFirst) {
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
