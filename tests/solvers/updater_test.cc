#include "solvers/updater.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "core/error.h"
#include "solvers/snapshot.h"
#include "support/solver_runs.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

class Updates : public ::testing::Test {
 protected:
  Updates() {
    FillInput(&session_, "x", 1);
    param_.set_type("SGD");
    param_.set_lr_policy("fixed");
    param_.set_momentum(0);
  }
  std::unique_ptr<Updater> Make(int ranks = 1) {
    return std::make_unique<Updater>(
        param_, plan_, &session_, weights_.get(),
        Updater::Options{.seed = 1, .ranks = ranks, .device = {}, .log = &recorder_});
  }
  // Sets all gradients to this value.
  void SetGradients(float value) {
    for (size_t s = 0; s < plan_->parameters.size(); ++s) {
      std::ranges::fill(session_.ParameterGradient(s).span<float>(), value);
    }
  }
  std::vector<float> Flat() const {
    std::vector<float> all;
    for (size_t s = 0; s < weights_->size(); ++s) {
      const std::vector<float> blob = ValuesOf(std::as_const(*weights_).blob(s));
      all.insert(all.end(), blob.begin(), blob.end());
    }
    return all;
  }
  // The change of each weight by one update, which must be the same for all.
  double StepOf(Updater* updater, double rate) {
    const std::vector<float> before = Flat();
    EXPECT_EQ(updater->Update(rate, 0), Updater::Outcome::kUpdated);
    const std::vector<float> after = Flat();
    const double step = double{after[0]} - before[0];
    for (size_t i = 0; i < after.size(); ++i) EXPECT_NEAR(after[i] - before[i], step, 1e-6) << i;
    return step;
  }

  TempDir temp_;
  Recorder recorder_;
  SolverParameter param_;
  std::shared_ptr<const Plan> plan_ = PlanText(R"(
layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }
layer { name: 'out' type: 'InnerProduct' bottom: 'x' top: 'y'
  inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'EuclideanLoss' bottom: 'y' bottom: 'x' top: 'loss' })");
  std::shared_ptr<Weights> weights_ = Weights::Make(*plan_, 1);
  Session session_{plan_, weights_, ExecContext(1, 1)};
};

constexpr int kWeights = 12;  // three times three, and three biases

TEST_F(Updates, DivideByPassesAndRanks) {
  param_.set_iter_size(2);
  SetGradients(6);
  EXPECT_NEAR(StepOf(Make(3).get(), 0.1), -0.1, 1e-6);
}

TEST_F(Updates, ClipTheNormOfAllGradients) {
  param_.set_clip_gradients(0.5);
  SetGradients(2);
  EXPECT_NEAR(StepOf(Make().get(), 1), -0.5 / std::sqrt(kWeights), 1e-6);
}

TEST_F(Updates, AreSkippedAtALossScaleThatIsTooLarge) {
  param_.mutable_loss_scale()->set_initial(8);
  const auto updater = Make();
  SetGradients(std::numeric_limits<float>::infinity());
  const std::vector<float> before = Flat();
  EXPECT_EQ(updater->Update(0.1, 7), Updater::Outcome::kSkipped);
  EXPECT_EQ(Flat(), before);
  EXPECT_EQ(updater->scale()->scale(), 4);
  EXPECT_NE(recorder_.log.find("gradients of iteration 7 are not finite with a scale of 8"),
            std::string::npos);
  SetGradients(4);
  EXPECT_NEAR(StepOf(updater.get(), 0.1), -0.1, 1e-6);
}

TEST_F(Updates, NameTheSlotThatTheyBreak) {
  SetGradients(0);
  session_.ParameterGradient(1).span<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  const auto updater = Make();
  EXPECT_EQ(updater->Update(0.1, 0), Updater::Outcome::kBroken);
  EXPECT_EQ(updater->broken_slot(), 1U);
}

TEST_F(Updates, MoveTheAverageFromTheFirstWeights) {
  param_.set_ema_decay(0.75);
  const auto updater = Make();
  weights_->blob(0).span<float>()[0] = 3;
  updater->StartAverage();
  EXPECT_EQ(ValuesOf(*updater->average()), ValuesOf(*weights_));
  weights_->blob(0).span<float>()[0] = 7;
  updater->MoveAverage();
  updater->StartAverage();  // it has started
  EXPECT_EQ(updater->average()->blob(0).span<float>()[0], 4);
}

TEST_F(Updates, ArePutBack) {
  param_.set_momentum(0.5);
  SetGradients(1);
  const auto updater = Make();
  updater->Update(0.1, 0);
  const Updater::Copy copy = updater->TakeCopy();
  const std::vector<float> before = Flat();
  const double step = StepOf(updater.get(), 0.1);
  updater->PutBack(copy);
  EXPECT_EQ(Flat(), before);
  EXPECT_EQ(StepOf(updater.get(), 0.1), step);
}

TEST_F(Updates, ContinueFromASavedState) {
  param_.set_snapshot_prefix(temp_.File("s"));
  param_.set_momentum(0.5);
  SetGradients(1);
  const auto updater = Make();
  updater->Update(0.1, 0);
  SolverState state;
  updater->Save(&state);
  EXPECT_EQ(state.history_size(), 2);
  WriteSnapshot(param_, *plan_, *weights_, nullptr, 1, state);
  const std::string path = temp_.File("s_iter_1.solverstate");
  state.set_learned_net(temp_.File("s_iter_1.caffemodel"));
  const double step = StepOf(updater.get(), 0.1);  // 1 + 0.5

  const auto resumed = Make();
  EXPECT_FALSE(resumed->restored());
  resumed->Restore(state, path, {});
  EXPECT_TRUE(resumed->restored());
  EXPECT_EQ(StepOf(resumed.get(), 0.1), step);
  // The momentum of a layer that is frozen now is discarded.
  resumed->Restore(state, path, {"out"});
  EXPECT_NEAR(StepOf(resumed.get(), 0.1), -0.1, 1e-6);
}

TEST_F(Updates, RefuseHistoriesOfAnotherRule) {
  const auto updater = Make();
  SolverState state;
  try {
    updater->Restore(state, "s.solverstate", {});
    FAIL() << "restored";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("holds 0 history blobs, but SGD keeps 2"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace crema::test
