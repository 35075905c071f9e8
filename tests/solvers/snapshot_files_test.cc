// The files of a folder that a run resumes from, removes, or ignores.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "core/machine_limits.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/solver_state.h"
#include "solvers/resume.h"
#include "solvers/snapshot_set.h"
#include "support/solver_runs.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::ConfigOf;
using test::MakeSolver;
using test::OptionsFor;
using test::Recorder;
using test::TempDir;
using test::TestRegistry;
using test::ValuesOf;

constexpr int kNoProcess = 999999999;  // above the largest that Linux gives

class SnapshotFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    test::WriteRecords(temp_.File("train"), 13);
    test::WriteRecords(temp_.File("test"), 7);
    fs::create_directory(temp_.File("a"));
  }
  std::string Text(const std::string& rest, const std::string& prefix = "a/s") const {
    return StrCat("net_param { ", test::RegressionNet(temp_.path(), 4, 3), " } base_lr: 0.01 ",
                  "gamma: 0.5 momentum: 0.9 snapshot_prefix: '", temp_.File(prefix), "' ", rest);
  }
  std::string Fixed(const std::string& rest, const std::string& prefix = "a/s") const {
    return Text("lr_policy: 'fixed' random_seed: 5 " + rest, prefix);
  }
  void Solve(const std::string& text) { MakeSolver(text, OptionsFor(&recorder_))->Solve(); }
  Resumed Newest(const std::string& text) {
    return ResumeNewest(ConfigOf(text), TestRegistry(), OptionsFor(&recorder_));
  }
  void ExpectError(const std::string& text, ErrorCode code,
                   const std::vector<std::string>& expected) {
    try {
      Newest(text);
      FAIL() << "resumed";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      for (const std::string& part : expected) {
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      }
    }
  }
  void ExpectLog(const std::string& expected) const {
    EXPECT_NE(recorder_.log.find(expected), std::string::npos) << expected << "\n" << recorder_.log;
  }
  void ExpectNoLog(const std::string& unexpected) const {
    EXPECT_EQ(recorder_.log.find(unexpected), std::string::npos) << recorder_.log;
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(temp_.File("a"))) {
      if (entry.is_regular_file()) names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }

  TempDir temp_;
  Recorder recorder_;
};

TEST_F(SnapshotFiles, TheModelBesideTheStateIsTheOneOfTheState) {
  Solve(Fixed("max_iter: 2 ema_decay: 0.9"));
  fs::copy(temp_.File("a"), temp_.File("b"));
  const auto expected = ValuesOf(Newest(Fixed("max_iter: 2 ema_decay: 0.9")).solver->weights());
  // Another run with the same prefix.
  Solve(Fixed("max_iter: 2 ema_decay: 0.9 weight_decay: 0.5"));
  const Resumed moved = Newest(Fixed("max_iter: 2 ema_decay: 0.9", "b/s"));
  EXPECT_EQ(moved.state, temp_.File("b/s_iter_2.solverstate"));
  EXPECT_EQ(ValuesOf(moved.solver->weights()), expected);
}

TEST_F(SnapshotFiles, AModelThatStayedWhereItWasIsFound) {
  Solve(Fixed("max_iter: 2"));
  fs::create_directory(temp_.File("b"));
  fs::rename(temp_.File("a/s_iter_2.solverstate"), temp_.File("b/s_iter_2.solverstate"));
  fs::create_directory(temp_.File("b/s_iter_2.caffemodel"));  // no model
  EXPECT_EQ(Newest(Fixed("max_iter: 2", "b/s")).solver->iteration(), 2);
}

TEST_F(SnapshotFiles, UnusableSnapshotsAreNotOverwritten) {
  Solve(Fixed("max_iter: 4 snapshot: 2"));
  fs::remove(temp_.File("a/s_iter_2.caffemodel"));
  temp_.Write("a/s_iter_4.caffemodel", temp_.Read("a/s_iter_4.caffemodel").substr(0, 50));
  ExpectError(Fixed("max_iter: 4 snapshot: 2"), ErrorCode::kDataLoss,
              {temp_.File("a/s_iter_2.solverstate"), temp_.File("a/s_iter_4.solverstate"),
               "another snapshot_prefix", "--resume=", "remove them"});
  EXPECT_EQ(ExitCode(ErrorCode::kDataLoss), 3);
}

TEST_F(SnapshotFiles, OnlyFilesAreSnapshots) {
  Solve(Fixed("max_iter: 4 snapshot: 2"));
  fs::create_directory(temp_.File("a/s_iter_40.solverstate"));
  ASSERT_EQ(::mkfifo(temp_.File("a/s_iter_41.solverstate").c_str(), 0600), 0);
  fs::remove(temp_.File("a/s_iter_4.caffemodel"));
  fs::create_directory(temp_.File("a/s_iter_4.caffemodel"));
  EXPECT_EQ(Newest(Fixed("max_iter: 4")).state, temp_.File("a/s_iter_2.solverstate"));
  fs::remove(temp_.File("a/s_iter_4.caffemodel"));
  ASSERT_EQ(::mkfifo(temp_.File("a/s_iter_4.caffemodel").c_str(), 0600), 0);
  EXPECT_EQ(Newest(Fixed("max_iter: 4")).state, temp_.File("a/s_iter_2.solverstate"));
}

TEST_F(SnapshotFiles, AChangedScheduleIsAnErrorNotDamage) {
  const std::string rest = "lr_policy: 'multistep' random_seed: 5 max_iter: 4 snapshot: 2 ";
  Solve(Text(rest + "stepvalue: 1 stepvalue: 2 stepvalue: 3"));
  ExpectError(Text(rest + "stepvalue: 1 stepvalue: 2"), ErrorCode::kInvalidArgument,
              {"3 times", "only 2 entries of stepvalue"});
  SolverState state = ReadSolverState(temp_.File("a/s_iter_4.solverstate"));
  state.set_current_step(-1);
  WriteSolverState(state, temp_.File("a/s_iter_4.solverstate"));
  EXPECT_EQ(Newest(Text(rest + "stepvalue: 1 stepvalue: 2")).state,
            temp_.File("a/s_iter_2.solverstate"));
}

TEST_F(SnapshotFiles, DropsOfAnotherScheduleAreReportedIfDetectable) {
  const std::string step = Text("lr_policy: 'step' stepsize: 1 random_seed: 5 max_iter: 3");
  const std::string plateau =
      Text("lr_policy: 'plateau' plateau_winsize: 1 random_seed: 5 max_iter: 3");
  const std::string steps = Text(
      "lr_policy: 'multistep' stepvalue: 1 stepvalue: 50 stepvalue: 60 random_seed: 5 max_iter: 3");
  Solve(plateau);
  Newest(plateau);
  ExpectNoLog("another lr_policy");
  Solve(step);
  Newest(step);
  ExpectNoLog("another lr_policy");
  Newest(plateau);
  ExpectLog("another lr_policy");
  recorder_.log.clear();
  Newest(steps);
  ExpectLog("another lr_policy or other stepvalues");
  recorder_.log.clear();
  SolverState state = ReadSolverState(temp_.File("a/s_iter_3.solverstate"));
  state.set_current_step(1);
  state.set_minimum_loss(1);
  WriteSolverState(state, temp_.File("a/s_iter_3.solverstate"));
  Newest(plateau);
  ExpectNoLog("another lr_policy");
  Newest(steps);
  ExpectLog("another lr_policy");
  recorder_.log.clear();
  Solve(steps);
  Newest(steps);
  ExpectNoLog("another lr_policy");
}

TEST_F(SnapshotFiles, AFreshRunBesideOthersSnapshotsIsWarned) {
  Solve(Fixed("max_iter: 4 snapshot: 2"));
  ExpectNoLog("would resume from");
  Newest(Fixed("max_iter: 6")).solver->Solve();
  ExpectNoLog("would resume from");
  Solve(Fixed("max_iter: 1"));
  ExpectLog("--resume=auto would resume from " + temp_.File("a/s_iter_6.solverstate"));
}

TEST_F(SnapshotFiles, AnotherSeedInTheSolverFileIsReportedAndThatOfTheStateIsKept) {
  Solve(Fixed("max_iter: 2"));
  const Resumed run = Newest(Text("lr_policy: 'fixed' random_seed: 6 max_iter: 2"));
  EXPECT_EQ(run.solver->seed(), 5U);
  ExpectLog("random_seed: 6");
  recorder_.log.clear();
  Newest(Text("lr_policy: 'fixed' max_iter: 2"));
  ExpectNoLog("random_seed");
}

TEST_F(SnapshotFiles, RequestsAreAnsweredWithASnapshotAlsoWhereNoneIsPlanned) {
  SolverOptions options = OptionsFor(&recorder_);
  int polls = 0;
  options.poll = [&] { return ++polls == 3 ? Request::kStop : Request::kNone; };
  MakeSolver(Fixed("max_iter: 9 snapshot_after_train: false"), options)->Solve();
  EXPECT_EQ(Files(), (std::vector<std::string>{"s_iter_3.caffemodel", "s_iter_3.solverstate"}));
  EXPECT_TRUE(recorder_.stopped_early);
  // In the last test.
  polls = -3;
  MakeSolver(Fixed("max_iter: 4 snapshot_after_train: false test_interval: 4 "
                   "test_initialization: false"),
             options)
      ->Solve();
  EXPECT_TRUE(fs::exists(temp_.File("a/s_iter_4.solverstate"))) << polls;
}

TEST_F(SnapshotFiles, ARunWithoutSnapshotsStartsWhereNoneCanBeWrittenAndSaysSo) {
  temp_.Write("gone", "a file, so that no folder of this name can be made");
  SolverOptions options = OptionsFor(&recorder_);
  options.poll = [] { return Request::kNone; };
  MakeSolver(Fixed("max_iter: 1 snapshot_after_train: false", "gone/s"), options)->Solve();
  ExpectLog("no snapshot when it is stopped");
  // A time limit will ask for one.
  EXPECT_THROW(
      MakeSolver(Fixed("max_iter: 1 snapshot_after_train: false time_limit: '1h'", "gone/s"),
                 options),
      Error);
}

TEST_F(SnapshotFiles, FailedSnapshotLeavesNoModel) {
  fs::create_directory(temp_.File("a/s_iter_2.solverstate"));
  fs::create_directory(temp_.File("a/s_iter_4_ema.caffemodel"));
  Solve(Fixed("max_iter: 6 snapshot: 2 ema_decay: 0.9"));
  ExpectLog("no snapshot at iteration 2");
  ExpectLog("no snapshot at iteration 4");
  EXPECT_EQ(Files(), (std::vector<std::string>{"s_iter_6.caffemodel", "s_iter_6.solverstate",
                                               "s_iter_6_ema.caffemodel"}));
}

TEST_F(SnapshotFiles, FailedSnapshotLeavesTheModelOfAStateThatIsThere) {
  Solve(Fixed("max_iter: 2 ema_decay: 0.9"));
  fs::remove(temp_.File("a/s_iter_2_ema.caffemodel"));
  fs::create_directory(temp_.File("a/s_iter_2_ema.caffemodel"));
  EXPECT_THROW(Solve(Fixed("max_iter: 2 ema_decay: 0.9")), Error);
  EXPECT_EQ(Files(), (std::vector<std::string>{"s_iter_2.caffemodel", "s_iter_2.solverstate"}));
}

TEST_F(SnapshotFiles, RestsOfAnInterruptedRemovalGo) {
  Solve(Fixed("max_iter: 8 snapshot: 2 ema_decay: 0.9"));
  const auto interrupt = [&](const std::string& state) {
    fs::rename(temp_.File(state), temp_.File(state + ".removed"));
  };
  interrupt("a/s_iter_2.solverstate");
  interrupt("a/s_iter_4.solverstate");
  fs::remove(temp_.File("a/s_iter_4_ema.caffemodel"));
  fs::remove(temp_.File("a/s_iter_4.caffemodel"));
  temp_.Write("a/s_iter_8.solverstate.removed", "");  // and since then it was written again
  temp_.Write("a/notes.removed", "mine");
  RemoveOldSnapshots(temp_.File("a/s"), 8, 2, recorder_);
  EXPECT_EQ(Files(), (std::vector<std::string>{"notes.removed", "s_iter_6.caffemodel",
                                               "s_iter_6.solverstate", "s_iter_6_ema.caffemodel",
                                               "s_iter_8.caffemodel", "s_iter_8.solverstate",
                                               "s_iter_8_ema.caffemodel"}));
}

TEST_F(SnapshotFiles, ARunThatIsAtItsEndFinishesThemToo) {
  Solve(Fixed("max_iter: 4 snapshot: 2"));
  fs::rename(temp_.File("a/s_iter_2.solverstate"), temp_.File("a/s_iter_2.solverstate.removed"));
  FinishRemovals(temp_.File("a/s"), recorder_);
  EXPECT_EQ(Files(), (std::vector<std::string>{"s_iter_4.caffemodel", "s_iter_4.solverstate"}));
}

TEST_F(SnapshotFiles, DamagedOnesGoToo) {
  Solve(Fixed("max_iter: 8 snapshot: 2 ema_decay: 0.9"));
  fs::remove(temp_.File("a/s_iter_2_ema.caffemodel"));
  fs::remove(temp_.File("a/s_iter_4_ema.caffemodel"));
  fs::remove(temp_.File("a/s_iter_4.caffemodel"));
  RemoveOldSnapshots(temp_.File("a/s"), 8, 1, recorder_);
  EXPECT_EQ(Files(), (std::vector<std::string>{"s_iter_8.caffemodel", "s_iter_8.solverstate",
                                               "s_iter_8_ema.caffemodel"}));
}

TEST_F(SnapshotFiles, TheStateGoesLast) {
  Solve(Fixed("max_iter: 4 snapshot: 2"));
  const std::string model = temp_.File("a/s_iter_2.caffemodel");
  fs::remove(model);
  fs::create_directory(model);
  temp_.Write("a/s_iter_2.caffemodel/mine", "");
  RemoveOldSnapshots(temp_.File("a/s"), 4, 1, recorder_);
  EXPECT_TRUE(fs::exists(model + "/mine"));
  EXPECT_FALSE(fs::exists(temp_.File("a/s_iter_2.solverstate")));
  EXPECT_TRUE(fs::exists(temp_.File("a/s_iter_4.solverstate")));
}

TEST_F(SnapshotFiles, TemporaryFilesOfDeadRunsGoAtTheStart) {
  const auto tmp = [](const std::string& name, int process) {
    return StrCat(name, ".tmp.", HostName(), ".", process);
  };
  for (const char* name : {"s_iter_2.caffemodel", "s_iter_2.solverstate.h5", "s_best.caffemodel",
                           "s_iter_30_ema.caffemodel", "s_iter_0.tempfile"}) {
    temp_.Write("a/" + tmp(name, kNoProcess), "half");
  }
  temp_.Write("a/" + tmp("s_iter_5.caffemodel", kNoProcess) + "-0123456789abcdef", "half");
  // Process numbers are reused, mostly in containers.
  temp_.Write("a/" + tmp("s_iter_3.caffemodel", ::getpid()), "half");
  // It is unknown whether processes of other machines run.
  for (const std::string before : {"", "elsewhere.example."}) {
    const std::string old = StrCat("a/s_iter_4.caffemodel.tmp.", before, kNoProcess);
    temp_.Write(old, "half");
    fs::last_write_time(temp_.File(old), fs::file_time_type::clock::now() - std::chrono::hours(25));
  }
  std::vector<std::string> kept = {tmp("s2_iter_2.caffemodel", kNoProcess),
                                   tmp("s_iter_2.caffemodel", 1),
                                   tmp("s_iter_x.caffemodel", kNoProcess),
                                   tmp("s_iter_2.mine", kNoProcess),
                                   tmp("s_notes.txt", kNoProcess),
                                   "s_iter_2.caffemodel.tmp.12x",
                                   StrCat("s_iter_2.caffemodel.tmp.", kNoProcess),
                                   StrCat("s_iter_2.caffemodel.tmp.elsewhere.", kNoProcess),
                                   "s_iter_2.caffemodel.tmp.",
                                   tmp("other_iter_2.solverstate", kNoProcess)};
  for (const std::string& name : kept) temp_.Write("a/" + name, "mine");
  Solve(Fixed("max_iter: 1"));
  kept.insert(kept.end(), {"s_iter_1.caffemodel", "s_iter_1.solverstate"});
  std::ranges::sort(kept);
  EXPECT_EQ(Files(), kept);
  ExpectLog("removed 9 temporary files");
}

}  // namespace
}  // namespace crema
