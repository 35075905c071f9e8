#include "solvers/ranked_run.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "support/host_collective.h"
#include "support/solver_runs.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

TEST(RankedRun, IsTheIdentityOnOneDevice) {
  const RankedRun run(nullptr, 0);
  EXPECT_EQ(run.count(), 1);
  EXPECT_FALSE(run.several());
  EXPECT_TRUE(run.is_first());
  EXPECT_EQ(run.StepOf(7), 7U);
  EXPECT_EQ(run.Mean(0.5), 0.5);
  EXPECT_EQ(run.Lead([] { return RankGroup::Note{.number = 3}; }).number, 3);
  run.ThrowIfFailed();
}

// Calls body(rank) in a thread for each of two ranks.
template <typename Body>
void RunBoth(const Body& body) {
  std::array<std::thread, 2> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads[static_cast<size_t>(rank)] = std::thread([&body, rank] { body(rank); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(RankedRun, SharesLossesAndDecisions) {
  ThreadRanks group(2, std::make_unique<HostCollective>(2));
  std::array<double, 2> means = {};
  std::array<double, 2> led = {};
  RunBoth([&](int rank) {
    const RankedRun run(&group, rank);
    means.at(static_cast<size_t>(rank)) = run.Mean(rank);
    led.at(static_cast<size_t>(rank)) =
        run.Lead([rank] { return RankGroup::Note{.number = 10.0 + rank}; }).number;
  });
  EXPECT_EQ(means, (std::array{0.5, 0.5}));
  EXPECT_EQ(led, (std::array{10.0, 10.0}));
}

TEST(RankedRun, DrawsOtherNumbersInEachRank) {
  ThreadRanks group(2, std::make_unique<HostCollective>(2));
  EXPECT_EQ(RankedRun(&group, 0).StepOf(7), 7U);
  EXPECT_NE(RankedRun(&group, 1).StepOf(7), 7U);
}

class RankedPositions : public ::testing::Test {
 protected:
  RankedPositions() {
    WriteRecords(temp_.File("train"), 13);
    WriteRecords(temp_.File("test"), 7);
  }
  std::unique_ptr<Session> NewSession() {
    const std::shared_ptr<const Plan> plan = PlanText(RegressionNet(temp_.path(), 4, 3));
    return std::make_unique<Session>(plan, Weights::Make(*plan, 1), ExecContext(1, 1));
  }
  static uint64_t PositionOf(const Session& session) {
    SolverState state;
    session.SaveState("train", &state);
    return state.layer_state(0).position();
  }

  TempDir temp_;
  Recorder recorder_;
};

TEST_F(RankedPositions, RanksShareWhatOneIsAskedWithTheLosses) {
  ThreadRanks group(2, std::make_unique<HostCollective>(2));
  std::array<int, 2> asked = {0, 2};
  std::array<double, 2> means = {};
  RunBoth([&](int rank) {
    const auto r = static_cast<size_t>(rank);
    const auto session = NewSession();
    means.at(r) = RankedRun(&group, rank).SumGradients(rank, session.get(), 0, &asked.at(r));
  });
  EXPECT_EQ(asked, (std::array{2, 2}));
  EXPECT_EQ(means, (std::array{0.5, 0.5}));
}

TEST_F(RankedPositions, EachRankContinuesWhereItWas) {
  ThreadRanks group(2, std::make_unique<HostCollective>(2));
  SolverState saved;
  std::array<uint64_t, 2> before = {};
  RunBoth([&](int rank) {
    RankedRun run(&group, rank);
    const auto session = NewSession();
    for (int pass = 0; pass < 1 + rank; ++pass) session->Forward();
    before.at(static_cast<size_t>(rank)) = PositionOf(*session);
    EXPECT_TRUE(run.GatherPositions(*session));
    if (run.is_first()) run.SavePositions(*session, &saved);
  });
  ASSERT_EQ(saved.layer_state_size(), 2);
  EXPECT_EQ(saved.layer_state(1).net(), "train@1");
  EXPECT_LT(before[0], before[1]);
  for (int rank = 0; rank < 2; ++rank) {
    const auto session = NewSession();
    RankedRun(&group, rank).RestorePositions(saved, session.get(), &recorder_);
    EXPECT_EQ(PositionOf(*session), before.at(static_cast<size_t>(rank)));
  }
  EXPECT_EQ(recorder_.log, "");
}

TEST_F(RankedPositions, RanksNoticeOtherWeights) {
  ThreadRanks group(2, std::make_unique<HostCollective>(2));
  std::array<bool, 2> same = {true, true};
  RunBoth([&](int rank) {
    RankedRun run(&group, rank);
    const auto session = NewSession();
    if (rank == 1) static_cast<float*>(session->Parameter(0).raw())[0] += 1e-3F;
    same.at(static_cast<size_t>(rank)) = run.GatherPositions(*session);
  });
  EXPECT_EQ(same, (std::array{false, false}));
}

TEST_F(RankedPositions, AnotherNumberOfRanksIsDealtTheSamplesEvenly) {
  const auto session = NewSession();
  session->Forward();
  SolverState saved;
  RankedRun(nullptr, 0).SavePositions(*session, &saved);
  saved.mutable_layer_state(0)->set_position(8);
  ThreadRanks group(2, std::make_unique<HostCollective>(2));
  const auto half = NewSession();
  RankedRun(&group, 1).RestorePositions(saved, half.get(), &recorder_);
  EXPECT_EQ(PositionOf(*half), 4U);
  EXPECT_NE(recorder_.log.find("on 1 device and continues on 2"), std::string::npos)
      << recorder_.log;
}

}  // namespace
}  // namespace crema::test
