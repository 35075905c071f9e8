// Stops and snapshots that are requested between the passes of one iteration (iter_size).
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/solver_state.h"
#include "support/solver_runs.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

constexpr int kIterations = 5;
constexpr int kPasses = 4;

class StopBetweenPasses : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteRecords(temp_.File("train"), 13);
    WriteRecords(temp_.File("test"), 7);
    // One that was not stopped, with a snapshot after each iteration.
    Recorder whole;
    MakeSolver(Text("whole", "snapshot: 1"), OptionsFor(&whole))->Solve();
    loss_ = whole.iterations.back().smoothed_loss;
  }

  // With statistics, random draws and a data set that ends in the middle of an iteration.
  std::string Text(const std::string& prefix, const std::string& fields) const {
    std::string net = RegressionNet(temp_.path(), 4, 3);
    net.insert(net.find("layer { name: \"relu\""), R"(
layer { name: "norm" type: "BatchNorm" bottom: "hidden" top: "hidden" }
layer { name: "scale" type: "Scale" bottom: "hidden" top: "hidden" scale_param { bias_term: true } }
)");
    return StrCat("net_param { ", net, " } base_lr: 0.01 lr_policy: 'fixed' momentum: 0.9 ",
                  "random_seed: 5 average_loss: 3 ema_decay: 0.8 display: 1 iter_size: ", kPasses,
                  " max_iter: ", kIterations, " snapshot_prefix: '", temp_.File(prefix), "' ",
                  fields);
  }
  // Without tests there is a poll after each pass.
  static SolverOptions Asking(Recorder* recorder, int* polls, int when, Request request) {
    SolverOptions options = OptionsFor(recorder);
    options.poll = [=] { return ++*polls == when ? request : Request::kNone; };
    return options;
  }
  std::string Bytes(const std::string& prefix, int iteration, const char* suffix) const {
    std::string bytes = temp_.Read(StrCat(prefix, "_iter_", iteration, suffix));
    EXPECT_FALSE(bytes.empty()) << prefix << " " << iteration << suffix;
    return bytes;
  }
  // But for the names of files in the state.
  void ExpectSameFiles(const std::string& prefix, int iteration) const {
    for (const char* suffix : {".caffemodel", "_ema.caffemodel"}) {
      EXPECT_TRUE(Bytes(prefix, iteration, suffix) == Bytes("whole", iteration, suffix))
          << iteration << suffix;
    }
    SolverState state =
        ReadSolverState(temp_.File(StrCat(prefix, "_iter_", iteration, ".solverstate")));
    const SolverState expected =
        ReadSolverState(temp_.File(StrCat("whole_iter_", iteration, ".solverstate")));
    state.set_learned_net(expected.learned_net());
    state.set_ema_net(expected.ema_net());
    EXPECT_TRUE(state.SerializeAsString() == expected.SerializeAsString()) << iteration;
  }

  TempDir temp_;
  double loss_ = 0;
};

TEST_F(StopBetweenPasses, TheSnapshotIsThatOfTheLastWholeIteration) {
  for (int when = 1; when < kIterations * kPasses; ++when) {
    const int whole = when / kPasses;
    int polls = 0;
    Recorder stopped;
    const auto first = MakeSolver(Text("cut", ""), Asking(&stopped, &polls, when, Request::kStop));
    first->Solve();
    EXPECT_TRUE(stopped.stopped_early);
    EXPECT_EQ(polls, when) << "it went on";
    EXPECT_EQ(first->iteration(), whole);
    if (whole > 0) ExpectSameFiles("cut", whole);

    Recorder resumed;
    const auto second = MakeSolver(Text("cut", ""), OptionsFor(&resumed));
    second->Restore(temp_.File(StrCat("cut_iter_", whole, ".solverstate")));
    second->Solve();
    ExpectSameFiles("cut", kIterations);
    EXPECT_EQ(resumed.iterations.back().smoothed_loss, loss_);
  }
}

TEST_F(StopBetweenPasses, TheSameSolverMayGoOn) {
  for (const int when : {1, 6, 11, 19}) {
    int polls = 0;
    Recorder recorder;
    const auto solver = MakeSolver(Text("on", ""), Asking(&recorder, &polls, when, Request::kStop));
    EXPECT_FALSE(solver->Step(kIterations));
    EXPECT_EQ(solver->iteration(), when / kPasses);
    EXPECT_TRUE(solver->Step(kIterations - solver->iteration()));
    solver->Snapshot();
    ExpectSameFiles("on", kIterations);
    EXPECT_EQ(recorder.iterations.back().smoothed_loss, loss_);
  }
}

TEST_F(StopBetweenPasses, ASnapshotWaitsForTheEndOfTheIteration) {
  int polls = 0;
  Recorder recorder;
  MakeSolver(Text("asked", ""), Asking(&recorder, &polls, kPasses + 2, Request::kSnapshot))
      ->Solve();
  EXPECT_EQ(recorder.snapshots, (std::vector<std::string>{temp_.File("asked_iter_2.solverstate"),
                                                          temp_.File("asked_iter_5.solverstate")}));
  ExpectSameFiles("asked", 2);
  ExpectSameFiles("asked", kIterations);
}

}  // namespace
}  // namespace crema::test
