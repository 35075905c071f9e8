// Commands whose log or results have no reader, or lose it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/caffemodel.h"
#include "format/solver_state.h"
#include "support/pipe.h"
#include "support/process.h"
#include "support/solver_runs.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

class UnreadLog : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteRecords(temp_.File("train"), 13);
    WriteRecords(temp_.File("test"), 7);
    temp_.Write("net.prototxt", RegressionNet(temp_.path(), 4, 3));
  }
  std::vector<std::string> TrainCommand(const std::string& fields) const {
    temp_.Write("solver.prototxt",
                StrCat("net: 'net.prototxt' base_lr: 0.01 lr_policy: 'fixed' random_seed: 5 ",
                       "snapshot_prefix: 's' ", fields));
    return {Bin("train"), "--solver=solver.prototxt", "--threads=1"};
  }
  std::vector<std::string> Snapshots() const {
    std::vector<std::string> states;
    for (const auto& entry : fs::directory_iterator(temp_.path())) {
      const std::string name = entry.path().filename().string();
      if (name.ends_with(".solverstate")) states.push_back(name);
    }
    return states;
  }
  // Checks that a complete snapshot exists, and returns its iteration.
  int SnapshotIteration() const {
    const std::vector<std::string> states = Snapshots();
    EXPECT_EQ(states.size(), 1U);
    if (states.empty()) return -1;
    const SolverState state = ReadSolverState(temp_.File(states[0]));
    EXPECT_NO_THROW(ReadCaffemodel(temp_.File(state.learned_net())));
    return state.iter();
  }

  TempDir temp_;
};

TEST_F(UnreadLog, TrainingGoesOnToItsEnd) {
  const Pipe pipe;
  for (const char* format : {"--log_format=text", "--log_format=json"}) {
    std::vector<std::string> command = TrainCommand("max_iter: 3000 display: 1");
    command.emplace_back(format);
    Process run(command, temp_.path(), pipe.writer(), pipe.writer());
    ASSERT_TRUE(run.EndsWithin(60s)) << format;
    EXPECT_EQ(run.Wait(), 0);
    EXPECT_TRUE(pipe.IsFullWithin(0ms)) << "or this test shows nothing";
    EXPECT_EQ(SnapshotIteration(), 3000);
    fs::remove(temp_.File("s_iter_3000.solverstate"));
  }
}

TEST_F(UnreadLog, SigtermSnapshotsAndEndsTraining) {
  const Pipe pipe;
  Process run(TrainCommand("max_iter: 2000000000 display: 1"), temp_.path(), pipe.writer(),
              pipe.writer());
  ASSERT_TRUE(pipe.IsFullWithin(60s));
  run.Signal(SIGTERM);
  ASSERT_TRUE(run.EndsWithin(10s));
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_GT(SnapshotIteration(), 0);
}

TEST_F(UnreadLog, AReaderWhoGoesDoesNotEndTraining) {
  Pipe pipe;
  Process run(TrainCommand("max_iter: 3000 display: 1"), temp_.path(), pipe.writer(),
              pipe.writer());
  EXPECT_FALSE(pipe.Read(60s, "\n").empty());
  pipe.CloseReader();
  ASSERT_TRUE(run.EndsWithin(60s));
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_EQ(SnapshotIteration(), 3000);
}

TEST_F(UnreadLog, TheReasonOfAnErrorIsNotLost) {
  Pipe pipe;
  Process run({Bin("train"), "--solver=missing.prototxt"}, temp_.path(), pipe.writer(),
              pipe.writer());
  pipe.CloseWriter();
  const std::string log = pipe.Read(60s);
  EXPECT_EQ(run.Wait(), 2);
  EXPECT_NE(log.find("error: "), std::string::npos) << log;
  EXPECT_NE(log.find("missing.prototxt"), std::string::npos) << log;
}

// Like `summary | head -1` after head has exited.
TEST_F(UnreadLog, AShortCommandEndsQuietlyWhenItsReaderHasGone) {
  Pipe pipe;
  pipe.CloseReader();
  const int err = ::open(temp_.File("err").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  Process run({Bin("summary"), "--model=net.prototxt"}, temp_.path(), pipe.writer(), err);
  EXPECT_EQ(run.Wait(), 128 + SIGPIPE);
  ::close(err);
  EXPECT_EQ(temp_.Read("err"), "");
}

TEST_F(UnreadLog, AFullDiskIsStillAnError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{Bin("summary"), "--model=net.prototxt"},
        TrainCommand("max_iter: 2")}) {
    Process run(command, temp_.path(), "/dev/full", temp_.File("err"));
    EXPECT_EQ(run.Wait(), 3);
    EXPECT_NE(temp_.Read("err").find("standard output cannot be written"), std::string::npos);
  }
}

}  // namespace
}  // namespace crema::test
