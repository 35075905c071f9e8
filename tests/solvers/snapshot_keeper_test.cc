#include "solvers/snapshot_keeper.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "format/solver_state.h"
#include "support/solver_runs.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

class KeptSnapshots : public ::testing::Test {
 protected:
  KeptSnapshots() { param_.set_snapshot_prefix(temp_.File("s")); }
  SnapshotKeeper Keeper(bool writes = true, bool may_be_asked = false) {
    return {param_,
            {.writes = writes,
             .may_be_asked = may_be_asked,
             .log = &recorder_,
             .observer = &recorder_}};
  }
  void Write(SnapshotKeeper* keeper, int iteration) {
    SolverState state;
    state.set_iter(iteration);
    keeper->Write({*plan_, *weights_, nullptr}, iteration, state);
  }

  TempDir temp_;
  Recorder recorder_;
  SolverParameter param_;
  std::shared_ptr<const Plan> plan_ = PlanText(R"(
layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }
layer { name: 'out' type: 'InnerProduct' bottom: 'x' top: 'y'
  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } })");
  std::shared_ptr<Weights> weights_ = Weights::Make(*plan_, 1);
};

TEST_F(KeptSnapshots, AreDueByIterationsAndEpochs) {
  param_.set_snapshot(10);
  param_.set_snapshot_epoch(1);
  const Epochs epochs(12, 4);  // three iterations each
  EXPECT_TRUE(Keeper().IsDue(10, epochs));
  EXPECT_TRUE(Keeper().IsDue(3, epochs));
  EXPECT_FALSE(Keeper().IsDue(4, epochs));
}

TEST_F(KeptSnapshots, ArePlannedByTheRankThatWrites) {
  param_.set_snapshot_after_train(true);
  EXPECT_TRUE(Keeper().IsPlanned());
  EXPECT_FALSE(Keeper(false).IsPlanned());
  param_.set_snapshot_after_train(false);
  EXPECT_FALSE(Keeper().IsPlanned());
}

TEST_F(KeptSnapshots, NeedAFolderOnlyWherePlanned) {
  temp_.Write("file", "");
  param_.set_snapshot_prefix(temp_.File("file/s"));  // this folder cannot be made
  param_.set_snapshot_after_train(false);
  Keeper().CheckFolder();
  EXPECT_EQ(recorder_.log, "");
  Keeper(true, true).CheckFolder();
  EXPECT_NE(recorder_.log.find("makes no snapshot when it is stopped"), std::string::npos);
  param_.set_snapshot(1);
  EXPECT_THROW(Keeper().CheckFolder(), Error);
  param_.set_snapshot_prefix(temp_.File("new/one/s"));
  Keeper().CheckFolder();
  EXPECT_TRUE(std::filesystem::is_directory(temp_.File("new/one")));
}

TEST_F(KeptSnapshots, AreWrittenOnceAndRemovedByKeep) {
  param_.set_snapshot_keep(1);
  SnapshotKeeper keeper = Keeper();
  EXPECT_EQ(keeper.LastModel(), "");
  for (int iteration : {1, 2, 2}) {
    keeper.TryWrite(iteration, [&] { Write(&keeper, iteration); });
  }
  EXPECT_EQ(recorder_.snapshots.size(), 2U);
  EXPECT_EQ(keeper.last(), 2);
  EXPECT_EQ(keeper.LastModel(), temp_.File("s_iter_2.caffemodel"));
  EXPECT_EQ(ReadSolverState(temp_.File("s_iter_2.solverstate")).iter(), 2);
  EXPECT_EQ(temp_.FileCount(), 2U);
}

TEST_F(KeptSnapshots, OtherRanksRecordTheIterationWithoutWriting) {
  SnapshotKeeper keeper = Keeper(false);
  keeper.TryWrite(3, [] { FAIL(); });
  EXPECT_EQ(keeper.last(), 3);
  EXPECT_EQ(keeper.LastModel(), "");
}

TEST_F(KeptSnapshots, AreNeverOfBrokenWeights) {
  weights_->blob(0).span<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  SnapshotKeeper keeper = Keeper();
  try {
    keeper.TryWrite(4, [&] { Write(&keeper, 4); });
    FAIL() << "written";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDiverged);
  }
  EXPECT_EQ(temp_.FileCount(), 0U);
}

TEST_F(KeptSnapshots, ThatCannotBeWrittenAreLogged) {
  param_.set_snapshot_prefix(temp_.Write("file", "") + "/s");  // no folder
  SnapshotKeeper keeper = Keeper();
  keeper.TryWrite(5, [&] { Write(&keeper, 5); });
  EXPECT_NE(recorder_.log.find("no snapshot at iteration 5: "), std::string::npos);
  EXPECT_EQ(keeper.last(), -1);
}

}  // namespace
}  // namespace crema::test
