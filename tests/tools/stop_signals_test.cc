// Stop signals while a command does not check for them for a long time.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "core/strings.h"
#include "format/solver_state.h"
#include "support/process.h"
#include "support/solver_runs.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class StopSignals : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteRecords(temp_.File("train"), 13);
    WriteRecords(temp_.File("test"), 7);
    temp_.Write("net.prototxt", RegressionNet(temp_.path(), 4, 3));
  }
  std::vector<std::string> TrainCommand(const std::string& fields) const {
    temp_.Write("solver.prototxt",
                StrCat("net: 'net.prototxt' base_lr: 0.01 lr_policy: 'fixed' random_seed: 5 ",
                       "snapshot_prefix: 's' display: 1 ", fields));
    return {Bin("train"), "--solver=solver.prototxt", "--threads=1"};
  }
  // Waits until the log has `text`.
  bool HasSaid(const std::string& text) const {
    const auto end = Clock::now() + 60s;
    while (temp_.Read("err").find(text) == std::string::npos) {
      if (Clock::now() >= end) return false;
      std::this_thread::sleep_for(2ms);
    }
    return true;
  }

  TempDir temp_;
};

TEST_F(StopSignals, ActBetweenThePassesOfAnIteration) {
  for (const int signal : {SIGTERM, SIGINT}) {
    Process run(TrainCommand("max_iter: 10 iter_size: 2000000000"), temp_.path(), temp_.File("out"),
                temp_.File("err"));
    ASSERT_TRUE(HasSaid("Solving"));
    run.Signal(signal);
    ASSERT_TRUE(run.EndsWithin(10s));
    EXPECT_EQ(run.Wait(), 0) << temp_.Read("err");
    EXPECT_EQ(ReadSolverState(temp_.File("s_iter_0.solverstate")).iter(), 0);
    std::filesystem::remove(temp_.File("s_iter_0.solverstate"));
    std::filesystem::remove(temp_.File("err"));
  }
}

TEST_F(StopSignals, ActBetweenTheBatchesOfATest) {
  Process run(TrainCommand("max_iter: 10 test_iter: 2000000000 test_interval: 5"), temp_.path(),
              temp_.File("out"), temp_.File("err"));
  ASSERT_TRUE(HasSaid("Testing net"));
  run.Signal(SIGTERM);
  ASSERT_TRUE(run.EndsWithin(10s));
  EXPECT_EQ(run.Wait(), 0) << temp_.Read("err");
  EXPECT_EQ(ReadSolverState(temp_.File("s_iter_0.solverstate")).iter(), 0);
}

// One forward pass takes minutes, so the command cannot end by itself.
TEST_F(StopSignals, ASecondOneEndsTheCommandAtOnce) {
  temp_.Write("net.prototxt", R"(
    layer { name: 'data' type: 'DummyData' top: 'data'
      dummy_data_param { shape { dim: 1 dim: 1 dim: 4000 dim: 4000 } } }
    layer { name: 'pool' type: 'Pooling' bottom: 'data' top: 'pool'
      pooling_param { kernel_size: 2000 } }
    layer { name: 'ip' type: 'InnerProduct' bottom: 'pool' top: 'ip'
      inner_product_param { num_output: 1 } }
    layer { name: 'loss' type: 'Reduction' bottom: 'ip' top: 'loss' loss_weight: 1 })");
  Process run(TrainCommand("max_iter: 10"), temp_.path(), temp_.File("out"), temp_.File("err"));
  ASSERT_TRUE(HasSaid("Solving"));
  const auto start = Clock::now();
  while (run.IsRunning() && Clock::now() < start + 20s) {
    run.Signal(SIGTERM);
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_GE(Clock::now() - start, 1s) << "the first ones are one request";
  ASSERT_FALSE(run.IsRunning());
  EXPECT_EQ(run.Wait(), 128 + SIGTERM);
}

// Linux ignores signals without a handler for PID 1 of a container.
TEST_F(StopSignals, EndACommandThatIsPid1) {
  const std::string pipe = temp_.File("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    Process run({"/usr/bin/env", "unshare", "--pid", "--fork", "--kill-child", Bin("summary"),
                 StrCat("--model=", pipe)},
                "", temp_.File("out"), temp_.File("err"));
    // Once it reads the net, it blocks until there is a writer.
    int writer = -1;
    const auto end = Clock::now() + 60s;
    while ((writer = ::open(pipe.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)) < 0 &&
           run.IsRunning() && Clock::now() < end) {
      std::this_thread::sleep_for(2ms);
    }
    if (writer < 0) GTEST_SKIP() << "no namespaces here: " << temp_.Read("err");
    int child = 0;
    std::ifstream(StrCat("/proc/", run.pid(), "/task/", run.pid(), "/children")) >> child;
    ASSERT_GT(child, 1);
    EXPECT_EQ(::kill(child, signal), 0);
    EXPECT_TRUE(run.EndsWithin(10s)) << signal;
    if (run.IsRunning()) ::kill(child, SIGKILL);
    EXPECT_EQ(run.Wait(), 128 + signal);
    ::close(writer);
  }
}

}  // namespace
}  // namespace crema::test
