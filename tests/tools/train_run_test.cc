// Runs of `train` that are stopped, killed, resumed, or out of disk space.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <thread>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/caffemodel.h"
#include "format/solver_state.h"
#include "support/process.h"
#include "support/solver_runs.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::Bin;
using test::Process;
using test::ProcessResult;
using test::RunProcess;
using test::TempDir;

class TrainRun : public ::testing::Test {
 protected:
  void SetUp() override {
    test::WriteRecords(temp_.File("train"), 13);
    test::WriteRecords(temp_.File("test"), 7);
    temp_.Write("net.prototxt", test::RegressionNet(".", 4, 3));
    WriteSolver("max_iter: 40 snapshot: 10");
  }

  void WriteSolver(const std::string& rest) const {
    temp_.Write("solver.prototxt",
                StrCat("net: 'net.prototxt' base_lr: 0.01 lr_policy: 'fixed' momentum: 0.9 ",
                       "random_seed: 1 snapshot_prefix: 's' ", rest, "\n"));
  }
  std::vector<std::string> Command(const std::vector<std::string>& flags) const {
    std::vector<std::string> command = {Bin("train"), "--solver=solver.prototxt"};
    if (std::ranges::none_of(flags, [](const std::string& f) { return f.starts_with("--thr"); })) {
      command.emplace_back("--threads=1");
    }
    command.insert(command.end(), flags.begin(), flags.end());
    return command;
  }
  ProcessResult Run(const std::vector<std::string>& flags = {}) const {
    return RunProcess(Command(flags), temp_.path());
  }
  void ExpectFailure(int code, const std::string& expected,
                     const std::vector<std::string>& flags) const {
    const ProcessResult result = Run(flags);
    EXPECT_EQ(result.exit_code, code) << result.err;
    EXPECT_NE(result.err.find(expected), std::string::npos) << expected << "\n" << result.err;
  }
  bool WaitFor(const std::string& file) const {
    for (int i = 0; i < 3000 && !fs::exists(temp_.File(file)); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return fs::exists(temp_.File(file));
  }
  std::vector<std::string> States() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(temp_.path())) {
      const std::string name = entry.path().filename().string();
      EXPECT_EQ(name.find(".tmp"), std::string::npos) << name << " was left behind";
      if (name.ends_with(".solverstate")) names.push_back(name);
    }
    return names;
  }

  TempDir temp_;
};

TEST_F(TrainRun, ResumesAutomatically) {
  const ProcessResult first = Run({"--resume=auto"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_NE(first.err.find("no snapshot of 's' to resume from"), std::string::npos) << first.err;
  const std::string expected = temp_.Read("s_iter_40.caffemodel");
  const std::string state = temp_.Read("s_iter_40.solverstate");
  temp_.Write("s_iter_40.solverstate", state.substr(0, state.size() - 5));
  const ProcessResult second = Run({"--resume=auto"});
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_NE(second.err.find("the snapshot s_iter_40.solverstate cannot be used"), std::string::npos)
      << second.err;
  EXPECT_NE(second.err.find("resuming from s_iter_30.solverstate"), std::string::npos);
  EXPECT_EQ(temp_.Read("s_iter_40.caffemodel"), expected);
  EXPECT_EQ(temp_.Read("s_iter_40.solverstate"), state);
  // Nothing is left to train, which is not an error.
  EXPECT_EQ(Run({"--resume=auto"}).exit_code, 0);
}

TEST_F(TrainRun, KilledRunsEndAsOneThatWasNot) {
  WriteSolver("max_iter: 60 snapshot: 2 ema_decay: 0.9 test_interval: 7 snapshot_best { }");
  ASSERT_EQ(Run().exit_code, 0);
  const std::vector<std::string> files = {"s_iter_60.caffemodel", "s_iter_60.solverstate",
                                          "s_iter_60_ema.caffemodel", "s_best.caffemodel"};
  std::vector<std::string> expected;
  for (const std::string& file : files) expected.push_back(temp_.Read(file));
  for (const auto& entry : fs::directory_iterator(temp_.path())) {
    if (entry.path().filename().string().starts_with("s_")) fs::remove_all(entry.path());
  }
  for (const char* seen :
       {"s_iter_4.solverstate", "s_iter_18.caffemodel", "s_iter_30.solverstate"}) {
    Process run(Command({"--resume=auto"}), temp_.path(), temp_.File("out"), temp_.File("err"));
    ASSERT_TRUE(WaitFor(seen)) << temp_.Read("err");
    run.Signal(SIGKILL);
    run.Wait();
  }
  ASSERT_EQ(Run({"--resume=auto"}).exit_code, 0);
  for (size_t i = 0; i < files.size(); ++i) {
    EXPECT_TRUE(temp_.Read(files[i]) == expected[i]) << files[i];
  }
  States();  // expects no temporary files
}

TEST_F(TrainRun, RefusedSnapshotsAreNotWrittenOver) {
  ASSERT_EQ(Run().exit_code, 0);
  const std::string expected = temp_.Read("s_iter_40.solverstate");
  for (const int iteration : {10, 20, 30, 40}) {
    temp_.Write(StrCat("s_iter_", iteration, ".caffemodel"), "damaged");
  }
  ExpectFailure(3, "no snapshot of 's' can be used: s_iter_40.solverstate, s_iter_30",
                {"--resume=auto"});
  EXPECT_EQ(temp_.Read("s_iter_40.solverstate"), expected);
  EXPECT_EQ(temp_.Read("s_iter_40.caffemodel"), "damaged");
}

TEST_F(TrainRun, ResumeFlagsAreChecked) {
  ASSERT_EQ(Run().exit_code, 0);
  const std::string expected = temp_.Read("s_iter_40.caffemodel");
  ASSERT_EQ(Run({"--resume=s_iter_10.solverstate"}).exit_code, 0);
  EXPECT_EQ(temp_.Read("s_iter_40.caffemodel"), expected);
  ExpectFailure(2, "are the same", {"--resume=auto", "--snapshot=s_iter_10.solverstate"});
  ExpectFailure(2, "not both", {"--resume=s_iter_10.solverstate", "--weights=w"});
  ExpectFailure(2, "other.solverstate", {"--resume=other.solverstate"});
  ExpectFailure(2, "there is no file 'atuo' (did you mean 'auto'?)", {"--resume=atuo"});
  ExpectFailure(2, "; give auto or a .solverstate", {"--resume=latest"});
  ExpectFailure(2, "--snapshot takes a .solverstate; give --resume=auto", {"--snapshot=auto"});
  ExpectFailure(2, "--snapshot: '.' is a folder", {"--snapshot=."});
  ExpectFailure(2, "--resume needs a value: --resume=auto|STATE", {"--resume", "--quiet"});
  ExpectFailure(2, "--resume needs a value: --resume=auto|STATE", {"--resume"});
  ASSERT_EQ(mkfifo(temp_.File("pipe").c_str(), 0600), 0);
  for (const char* no_file : {"pipe", "."}) {
    ExpectFailure(2, StrCat("'", no_file, "' is a folder, a pipe or a device"),
                  {StrCat("--resume=", no_file)});
  }
}

TEST_F(TrainRun, ResumeAutoStartsFromWeightsWhereThereIsNoSnapshot) {
  ASSERT_EQ(Run().exit_code, 0);
  WriteSolver("max_iter: 5 snapshot_prefix: 'fine'");
  fs::rename(temp_.File("s_iter_40.caffemodel"), temp_.File("start.caffemodel"));
  temp_.Write("solver.prototxt",
              "net: 'net.prototxt' base_lr: 0.01 lr_policy: 'fixed' max_iter: 5 random_seed: 1 "
              "snapshot_prefix: 'fine'");
  const std::vector<std::string> flags = {"--resume=auto", "--weights=start.caffemodel"};
  const ProcessResult first = Run(flags);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_NE(first.err.find("loaded 2 layers (hidden, out)"), std::string::npos) << first.err;
  const ProcessResult second = Run(flags);
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_NE(second.err.find("resuming from fine_iter_5.solverstate"), std::string::npos);
  EXPECT_NE(second.err.find("--weights has no effect: the run resumes from"), std::string::npos);
}

TEST_F(TrainRun, ADataSetOfAnotherSizeIsAWarningOnResuming) {
  const std::string warning = "the data set had 13 samples when this run was started before";
  ASSERT_EQ(Run().exit_code, 0);
  WriteSolver("max_iter: 50 snapshot: 10");
  const ProcessResult same = Run({"--resume=auto"});
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_EQ(same.err.find("the data set had"), std::string::npos) << same.err;
  fs::remove_all(temp_.File("train"));
  test::WriteRecords(temp_.File("train"), 9);
  WriteSolver("max_iter: 60 snapshot: 10");
  const ProcessResult other = Run({"--resume=auto", "-q"});
  EXPECT_EQ(other.exit_code, 0) << other.err;
  EXPECT_NE(other.err.find(StrCat(warning, ", and now has 9")), std::string::npos) << other.err;
}

// Numbers beyond the GPUs of this machine, and several of them.
TEST_F(TrainRun, GpusThatAreNotThereAreErrors) {
  for (const char* flag : {"--gpu=0,1000", "--gpu=1000", "-gpu=1000"}) {
    ExpectFailure(4, "leave --gpu out to compute on the CPU", {flag});
  }
  ExpectFailure(4, "leave --gpu out to compute on the CPU", {"-gpu", "1000"});
#ifndef CREMA_HAVE_CUDA
  ExpectFailure(4, "--gpu=all: this program was built without CUDA", {"--gpu=all"});
#endif
  ExpectFailure(2, "--gpu: 'first' is not 'all' or numbers", {"--gpu=first"});
  ExpectFailure(2, "is not 'all' or numbers", {"--gpu=0,"});
  ExpectFailure(2, "is not 'all' or numbers", {"--gpu=-1"});
  ExpectFailure(2, "1 appears twice in '1,1'", {"--gpu=1,1"});
  ExpectFailure(2, "--gpu_memory_limit is -1; give MiB", {"--gpu_memory_limit=-1"});
}

TEST_F(TrainRun, StoppingSignalsWriteOneSnapshotAndEndWithZero) {
  WriteSolver("max_iter: 2000000000");
  for (int signal : {SIGINT, SIGTERM}) {
    Process run(Command({"--sigint_effect=stop"}), temp_.path(), temp_.File("out"),
                temp_.File("err"));
    ASSERT_TRUE(WaitFor("err"));
    for (int i = 0; i < 3000 && temp_.Read("err").find("Solving") == std::string::npos; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    // Launchers send one stop several times: repeats within a second have no effect.
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
    while (run.IsRunning() && std::chrono::steady_clock::now() < end) {
      run.Signal(signal);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    EXPECT_EQ(run.Wait(), 0) << temp_.Read("err");
    const std::vector<std::string> states = States();
    ASSERT_EQ(states.size(), 1U);
    const SolverState state = ReadSolverState(temp_.File(states[0]));
    EXPECT_NO_THROW(ReadCaffemodel(temp_.File(state.learned_net())));
    fs::remove(temp_.File(states[0]));
    fs::remove(temp_.File("err"));
  }
}

TEST_F(TrainRun, SigtermStopsWhateverSigintDoes) {
  WriteSolver("max_iter: 2000000000 display: 100");
  Process run(Command({"--sigint_effect=none", "--sighup_effect=none"}), temp_.path(),
              temp_.File("out"), temp_.File("err"));
  for (int i = 0; i < 3000 && temp_.Read("err").find("Solving") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  run.Signal(SIGINT);
  run.Signal(SIGHUP);
  const size_t before = temp_.Read("err").size();
  for (int i = 0; i < 3000 && temp_.Read("err").size() < before + 1000; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(run.IsRunning());
  run.Signal(SIGTERM);
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_EQ(States().size(), 1U);
}

TEST_F(TrainRun, TimeLimitStopsWithASnapshot) {
  WriteSolver("max_iter: 2000000000 time_limit: '1s' snapshot_after_train: false");
  const ProcessResult result = Run();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("Optimization stopped early."), std::string::npos) << result.err;
  EXPECT_EQ(States().size(), 1U);
}

#ifdef CREMA_CLOCK_BACK
TEST_F(TrainRun, AClockThatIsSetBackChangesNothing) {
  WriteSolver("max_iter: 40 snapshot: 10 display: 1 time_limit: '1h'");
  ASSERT_EQ(Run({"--run=straight"}).exit_code, 0);
  const std::string expected = temp_.Read("s_iter_40.solverstate");
  for (const auto& entry : fs::directory_iterator(temp_.path())) {
    if (entry.path().filename().string().starts_with("s_iter_")) fs::remove(entry);
  }

  std::vector<std::string> command = {"/usr/bin/env", "LD_PRELOAD=" CREMA_CLOCK_BACK,
                                      "CLOCK_BACK_AFTER=60"};
  for (const std::string& part : Command({"--resume=auto", "--run=back"})) command.push_back(part);
  const ProcessResult result = RunProcess(command, temp_.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(temp_.Read("s_iter_40.solverstate"), expected);
  EXPECT_EQ(States().size(), 4U);

  const std::string metrics = temp_.Read("back/metrics.csv");
  std::istringstream rows(metrics);
  std::vector<double> times;
  for (std::string row; std::getline(rows, row);) {
    if (row.starts_with("train,")) times.push_back(std::stod(Split(row, ',').at(3)));
  }
  ASSERT_EQ(times.size(), 40U);
  EXPECT_LT(times.back(), times.front() - 3000) << "the clock was not set back";
  // Once the folder is valid again, the run continues in it.
  fs::remove(temp_.File("s_iter_40.solverstate"));
  EXPECT_EQ(Run({"--resume=s_iter_10.solverstate", "--run=back"}).exit_code, 0);
  EXPECT_EQ(temp_.Read("s_iter_40.solverstate"), expected);
  const std::string after = temp_.Read("back/metrics.csv");
  EXPECT_EQ(std::ranges::count(after, '\n'), std::ranges::count(metrics, '\n'));
  EXPECT_NE(after, metrics) << "the times of the last iterations are others";
}
#endif

TEST_F(TrainRun, DeterministicRunsAreTheSameFilesOnAnyThreads) {
  std::string expected;
  for (const char* threads : {"--threads=1", "--threads=2", "--threads=3"}) {
    const ProcessResult result = Run({"--deterministic", threads});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const std::string bytes =
        temp_.Read("s_iter_40.caffemodel") + temp_.Read("s_iter_40.solverstate");
    if (expected.empty()) expected = bytes;
    EXPECT_TRUE(bytes == expected) << threads;
  }
  temp_.Write("solver.prototxt",
              "net: 'net.prototxt' base_lr: 0.01 lr_policy: 'fixed' max_iter: 5");
  ExpectFailure(2, "random_seed is not set", {"--deterministic"});
}

// Runs a script with a file system of `size` mounted on the folder "small"; skips if that is not
// allowed.
class SmallDisk : public TrainRun {
 protected:
  ProcessResult RunOn(const std::string& size, const std::string& script) const {
    fs::create_directory(temp_.File("small"));
    return RunProcess(
        {"/usr/bin/unshare", "-Urm", "/bin/sh", "-c",
         StrCat("mount -t tmpfs -o size=", size, " tmpfs small || exit 99; ", script)},
        temp_.path());
  }
  std::string Train(const std::string& flags = "") const {
    return StrCat(Bin("train"), " --solver=solver.prototxt --quiet --threads=1 ", flags);
  }
};

TEST_F(SmallDisk, WithoutRoomForOneSnapshotTrainingDoesNotBegin) {
  WriteSolver("max_iter: 40 snapshot: 10 snapshot_prefix: 'small/s'");
  std::string text = temp_.Read("solver.prototxt");
  text.replace(text.find("snapshot_prefix: 's' "), 21, "");
  temp_.Write("solver.prototxt", text);
  const ProcessResult result = RunOn("16k", Train());
  if (result.exit_code == 99 || result.exit_code == 1) GTEST_SKIP() << "no mounts: " << result.err;
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_NE(result.err.find("a snapshot of this run takes"), std::string::npos) << result.err;
}

TEST_F(SmallDisk, DiskThatFillsUpOnTheWayLeavesTheLastSnapshotWhole) {
  temp_.Write("solver.prototxt",
              "net: 'net.prototxt' base_lr: 0.01 lr_policy: 'fixed' random_seed: 1 "
              "snapshot_prefix: 'small/s' max_iter: 400 snapshot: 10");
  const ProcessResult result = RunOn(
      "200k", StrCat(Train(), "; echo code=$?; for s in small/*.solverstate; do ",
                     "sed 's/max_iter: 400 snapshot: 10/max_iter: 1 snapshot_after_train: false/' ",
                     "solver.prototxt >check.prototxt; ", Bin("train"),
                     " --solver=check.prototxt --quiet --resume=$s 2>/dev/null || echo broken=$s; ",
                     "done; ls small"));
  if (result.exit_code == 99 || result.out.find("code=") == std::string::npos) {
    GTEST_SKIP() << "no mounts: " << result.err;
  }
  EXPECT_NE(result.out.find("code=3"), std::string::npos) << result.out << result.err;
  EXPECT_EQ(result.out.find("broken="), std::string::npos) << result.out << result.err;
  EXPECT_EQ(result.out.find(".tmp"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("s_iter_10.solverstate"), std::string::npos) << result.out;
  EXPECT_NE(result.err.find("keep fewer with snapshot_keep"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("the disk is full"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("training continues"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace crema
