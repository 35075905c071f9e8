#include <gtest/gtest.h>

#include "core/error.h"
#include "solvers/snapshot.h"
#include "support/solver_runs.h"

namespace crema {
namespace {

class StateCheck : public ::testing::Test {
 protected:
  StateCheck() {
    param_.set_type("SGD");
    param_.set_lr_policy("multistep");
    param_.add_stepvalue(10);
    param_.add_stepvalue(20);
    state_.set_iter(15);
    state_.set_current_step(1);
  }
  std::string Log() {
    test::Recorder recorder;
    CheckState(state_, "s.solverstate", param_, 5, &recorder);
    return recorder.log;
  }
  void ExpectError(ErrorCode code, const std::string& expected) {
    try {
      Log();
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("s.solverstate"), std::string::npos);
    }
  }

  SolverParameter param_;
  SolverState state_;
};

TEST_F(StateCheck, AcceptsAStateOfThisRun) {
  state_.set_solver_type("SGD");
  state_.set_seed(5);
  EXPECT_EQ(Log(), "");
}

TEST_F(StateCheck, RefusesAnotherSolverType) {
  state_.set_solver_type("Adam");
  ExpectError(ErrorCode::kInvalidArgument, "this state is of a Adam solver");
}

TEST_F(StateCheck, WarnsAboutSeeds) {
  state_.set_seed(6);
  EXPECT_EQ(Log(),
            "resuming with seed 5, but the run so far had 6: random draws will differ from an "
            "uninterrupted run\n");
  state_.set_seed(5);
  param_.set_random_seed(7);
  EXPECT_EQ(
      Log(),
      "the solver file says random_seed: 7, but the run so far had 5; it continues with that\n");
}

TEST_F(StateCheck, RefusesDamagedCounts) {
  state_.set_current_step(-1);
  ExpectError(ErrorCode::kDataLoss, "the state is damaged: iteration 15, current_step -1");
}

TEST_F(StateCheck, ComparesTheDropsOfTheSchedule) {
  state_.set_current_step(3);
  ExpectError(ErrorCode::kInvalidArgument, "dropped 3 times, but the solver file has only 2");
  state_.set_current_step(2);  // at iteration 15 only one has passed
  EXPECT_NE(Log().find("multistep counts these drops as its own"), std::string::npos);
}

}  // namespace
}  // namespace crema
