// Training on several GPUs, or stand-ins for them, is training on one with so many times the batch
// size, and all of them keep the same weights.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "support/parallel_training.h"
#include "support/random_nets.h"

namespace crema::test {
namespace {

constexpr const char* kFieldsOfSeveral =
    "iter_size: 2 average_loss: 3 weight_decay: 0.01 ema_decay: 0.8 clip_gradients: 0.7 "
    "loss_scale { initial: 1024 growth_interval: 3 } lr_policy: 'step' gamma: 0.5 stepsize: 3 "
    "display: 2 test_interval: 2 ";

TEST_F(SeveralGpus, LearnAsOneWithTheirBatchesTogether) {
  for (const char* rule :
       {"type: 'SGD' momentum: 0.9 base_lr: 0.1", "type: 'Adam' base_lr: 0.01"}) {
    const std::string fields =
        StrCat(kFieldsOfSeveral, "max_iter: 8 snapshot_after_train: false ", rule);
    for (const auto& [ranks, batch] : {std::pair(2, 3), std::pair(3, 2)}) {
      SCOPED_TRACE(StrCat(rule, " on ", ranks));
      const Training one = Make(1, SmallLeNet(6, fields));
      const auto before = ValuesOf(one.first->weights());
      one.Solve();
      const auto told = Told();
      const Training all = Make(ranks, SmallLeNet(batch, fields));
      all.Solve();
      ExpectSameWeights(all);
      EXPECT_GT(told.size(), 12U);
      EXPECT_NE(before, ValuesOf(one.first->weights()));
      ASSERT_NO_FATAL_FAILURE(ExpectNear(told, Told(), 1e-5, "losses and tests"));
      ASSERT_NO_FATAL_FAILURE(ExpectNear(ValuesOf(one.first->weights()),
                                         ValuesOf(all.first->weights()), 1e-4, "weights"));
      ASSERT_NO_FATAL_FAILURE(ExpectNear(ValuesOf(*one.first->averaged_weights()),
                                         ValuesOf(*all.first->averaged_weights()), 1e-4,
                                         "averages"));
    }
  }
}

TEST_F(SeveralGpus, KeepTheSameWeightsWithEveryRule) {
  for (const UpdateRule& rule : UpdateRules()) {
    SCOPED_TRACE(rule.name);
    const bool no_momentum = rule.name == "AdaGrad" || rule.name == "RMSProp";
    const Training run = Make(
        3, Regression(StrCat("max_iter: 5 lr_policy: 'fixed' type: '", rule.name, "' ",
                             no_momentum ? "" : "momentum: 0.9 ", "snapshot_after_train: false")));
    const auto before = ParametersOf(*run.first);
    run.Solve();
    EXPECT_NE(before, ParametersOf(*run.first));
    ExpectSameWeights(run);
  }
}

TEST_F(SeveralGpus, StartFromTheWeightsOfTheFirst) {
  const std::string text = SmallLeNet(2, "base_lr: 0.1 lr_policy: 'fixed' max_iter: 4 snapshot: 2");
  Make(1, text).Solve();
  const Training run = Make(2, text);
  run.first->LoadWeights({temp_.File("s_iter_4.caffemodel")});
  run.Step(1);
  ExpectSameWeights(run);
}

TEST_F(SeveralGpus, AResumedRunEndsInTheSameBytes) {
  const std::string text =
      Regression(StrCat(kFieldsOfSeveral, "max_iter: 9 snapshot: 4 momentum: 0.9"));
  const auto files = [&] {
    std::vector<std::string> bytes;
    for (const char* suffix : {".caffemodel", ".solverstate", "_ema.caffemodel"}) {
      bytes.push_back(temp_.Read(StrCat("s_iter_9", suffix)));
    }
    return bytes;
  };
  Make(2, text).Solve();
  const std::vector<std::string> whole = files();
  ASSERT_FALSE(whole[1].empty());
  for (int from : {4, 8}) {
    const Training resumed = Make(2, text, temp_.File(StrCat("s_iter_", from, ".solverstate")));
    resumed.Solve();
    ExpectSameWeights(resumed);
    EXPECT_TRUE(whole == files()) << "from " << from;
  }
}

// Sequences continue on each of them, from its own states.
TEST_F(SeveralGpus, AResumedRunHasTheRecurrentStatesOfAll) {
  const std::string text = StrCat(
      R"(net_param {
layer { name: "x" type: "DummyData" top: "x" top: "cont" dummy_data_param {
  shape { dim: 3 dim: 2 dim: 4 } shape { dim: 3 dim: 2 }
  data_filler { type: "gaussian" } data_filler { value: 1 } } }
layer { name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" top: "h" recurrent_param {
  num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "Reduction" bottom: "h" top: "loss" loss_weight: 1
  reduction_param { operation: SUMSQ } }
} base_lr: 0.1 lr_policy: "fixed" max_iter: 6 snapshot: 3 random_seed: 5 snapshot_prefix: ")",
      temp_.File("s"), "\"");
  Make(2, text).Solve();
  const std::string whole = temp_.Read("s_iter_6.solverstate");
  ASSERT_FALSE(whole.empty());
  const Training resumed = Make(2, text, temp_.File("s_iter_3.solverstate"));
  resumed.Solve();
  ExpectSameWeights(resumed);
  EXPECT_TRUE(whole == temp_.Read("s_iter_6.solverstate"));
}

TEST_F(SeveralGpus, ARunGoesOnWithAnotherNumberOfThem) {
  const std::string fields =
      "base_lr: 0.1 momentum: 0.9 lr_policy: 'fixed' max_iter: 8 snapshot: 4";
  const auto weights = [](const Training& run) {
    run.Solve();
    return ValuesOf(run.first->weights());
  };
  for (const auto& [before, then] : {std::pair(2, 1), std::pair(1, 3), std::pair(3, 2)}) {
    const auto expected = weights(Make(before, SmallLeNet(6 / before, fields)));
    const auto got =
        weights(Make(then, SmallLeNet(6 / then, fields), temp_.File("s_iter_4.solverstate")));
    EXPECT_NE(recorder_.log.find(StrCat("continues on ", then)), std::string::npos);
    ASSERT_NO_FATAL_FAILURE(ExpectNear(expected, got, 1e-4, StrCat(before, " and ", then)));
  }
}

TEST_F(SeveralGpus, StopTogetherWhenTheFirstIsAskedTo) {
  int asked = 0;
  SolverOptions options = GpuOptions(&recorder_);
  options.poll = [&] { return ++asked == 3 ? Request::kStop : Request::kNone; };
  const Training run =
      MakeTraining(2, SmallLeNet(2, "base_lr: 0.1 lr_policy: 'fixed' max_iter: 90"), options);
  run.Solve();
  EXPECT_EQ(run.first->iteration(), 3);
  EXPECT_TRUE(recorder_.stopped_early);
  EXPECT_EQ(recorder_.snapshots, std::vector{temp_.File("s_iter_3.solverstate")});
  ExpectSameWeights(run);
}

// The first alone runs a test; its decisions are for all.
TEST_F(SeveralGpus, FollowWhatTestsDecide) {
  const std::string fields =
      "base_lr: 0.01 lr_policy: 'plateau' gamma: 0.5 plateau { metric: 'loss' patience: 1 "
      "min_delta: "
      "100 } early_stop { metric: 'loss' patience: 3 min_delta: 100 } test_interval: 2 max_iter: "
      "90";
  const Training run = Make(2, SmallLeNet(2, fields));
  run.Solve();
  EXPECT_EQ(run.first->iteration(), 6);
  EXPECT_NE(recorder_.iterations.front().rate, recorder_.iterations.back().rate);
  ExpectSameWeights(run);
}

TEST_F(SeveralGpus, DrawRandomNumbersOfTheirOwn) {
  const Training run =
      Make(2,
           "net_param { layer { name: 'x' type: 'DummyData' top: 'x' dummy_data_param { "
           "shape { dim: 2 dim: 3 } data_filler { type: 'gaussian' } } } layer { name: "
           "'ip' type: 'InnerProduct' bottom: 'x' top: 'y' inner_product_param { "
           "num_output: 1 weight_filler { type: 'xavier' } } } layer { name: 'loss' "
           "type: 'Reduction' bottom: 'y' top: 'loss' loss_weight: 1 } } base_lr: 0.1 "
           "lr_policy: 'fixed' max_iter: 2 random_seed: 3 snapshot_after_train: false "
           "snapshot_prefix: ''");
  run.Solve();
  std::vector<std::vector<float>> drawn;
  for (int r = 0; r < 2; ++r) {
    const Session& session = run.rank(r).session();
    drawn.emplace_back(6);
    session.Read(session.Data("x"), drawn.back().data());
  }
  EXPECT_NE(drawn[0], drawn[1]);
  ExpectSameWeights(run);
}

}  // namespace
}  // namespace crema::test
