// lr_policy plateau: on the training loss and on a test.
#include <gtest/gtest.h>

#include <map>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/prototxt.h"
#include "format/solver_state.h"
#include "solvers/learning_rate.h"
#include "solvers/solver.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::TempDir;
using test::TestRegistry;
using test::ValuesOf;

SolverParameter PlateauParam(const std::string& text) {
  return ParseSolver("base_lr: 1 gamma: 0.5 lr_policy: \"plateau\" " + text, "s").solver;
}

// The rate of each iteration of a run with these smoothed losses.
std::vector<double> Follow(LearningRate* rate, int64_t first, const std::vector<double>& losses) {
  std::vector<double> rates;
  for (size_t i = 0; i < losses.size(); ++i) {
    const int64_t iteration = first + static_cast<int64_t>(i);
    rate->ObserveLoss(iteration, losses[i]);
    rates.push_back(rate->At(iteration));
  }
  return rates;
}

TEST(PlateauOnLoss, DropsAfterEachWindowWithoutABetterLoss) {
  LearningRate rate(PlateauParam("plateau_winsize: 3 plateau_winsize: 2"));
  // Best in iteration 1; the first window ends 3 later, the second 2 after that; then no more.
  EXPECT_EQ(Follow(&rate, 0, {5, 4, 4, 4.5, 4, 4, 4, 4, 4, 4}),
            (std::vector<double>{1, 1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25}));
  EXPECT_EQ(rate.current_step(), 2);
}

TEST(PlateauOnLoss, ABetterLossOpensTheWindowAnew) {
  LearningRate rate(PlateauParam("plateau_winsize: 3"));
  EXPECT_EQ(Follow(&rate, 0, {5, 5, 5, 4.9, 5, 5, 5}),
            (std::vector<double>{1, 1, 1, 1, 1, 1, 0.5}));
}

TEST(PlateauOnLoss, LossesOfTheWarmUpDoNotCount) {
  LearningRate rate(PlateauParam("plateau_winsize: 2 warmup_iter: 4 warmup_start_lr: 1"));
  EXPECT_EQ(Follow(&rate, 0, {1, 5, 5, 5, 5, 5, 5}), (std::vector<double>{1, 1, 1, 1, 1, 1, 0.5}));
}

TEST(PlateauOnLoss, GoesOnFromItsState) {
  const std::string text = "plateau_winsize: 3 plateau_winsize: 4";
  const std::vector<double> losses = {5, 4.1, 4, 4, 4, 4, 4, 3.9, 4, 4, 4, 4, 4, 4};
  LearningRate whole(PlateauParam(text));
  const std::vector<double> rates = Follow(&whole, 0, losses);
  for (size_t cut = 0; cut < losses.size(); ++cut) {
    const auto middle = losses.begin() + static_cast<int64_t>(cut);
    LearningRate before(PlateauParam(text));
    Follow(&before, 0, {losses.begin(), middle});
    SolverState state;
    before.Save(&state);
    LearningRate after(PlateauParam(text));
    after.Restore(state);
    EXPECT_EQ(Follow(&after, static_cast<int64_t>(cut), {middle, losses.end()}),
              std::vector<double>(rates.begin() + static_cast<int64_t>(cut), rates.end()))
        << cut;
  }
}

TEST(PlateauOnLoss, TheStateHasSsdsFields) {
  LearningRate rate(PlateauParam("plateau_winsize: 2 plateau_winsize: 9"));
  Follow(&rate, 0, {5, 4, 4, 4});
  SolverState state;
  rate.Save(&state);
  EXPECT_EQ(state.minimum_loss(), 4);
  EXPECT_EQ(state.iter_last_event(), 3);
  EXPECT_EQ(state.current_step(), 1);
}

constexpr const char* kTestNet =
    "layer { name: 'd' type: 'Input' top: 'score' top: 'error' input_param { shape { dim: 1 } } }";

// Reports of one test net with outputs `score` and `error`.
std::vector<TestReport> Round(int64_t iteration, double score, double error) {
  TestReport report{.iteration = iteration, .net = 0, .outputs = {}};
  report.outputs = {{"score", score, 0}, {"error", error, 0}};
  return {report};
}

class PlateauOnTest : public ::testing::Test {
 protected:
  LearningRate Make(const std::string& rule) {
    LearningRate rate(PlateauParam(StrCat("test_interval: 10 plateau { ", rule, " }")));
    EXPECT_TRUE(rate.wants_metric());
    const Plan* const plans[] = {plan_.get()};
    rate.BindTests(plans);
    return rate;
  }
  std::shared_ptr<const Plan> plan_ = test::PlanText(kTestNet, TEST);
};

TEST_F(PlateauOnTest, DropsWhenPatienceIsOver) {
  LearningRate rate = Make("metric: 'score' patience: 2");
  std::vector<double> rates;
  for (const double score : {0.5, 0.6, 0.6, 0.55, 0.7, 0.6, 0.6, 0.6, 0.6}) {
    const auto iteration = static_cast<int64_t>(10 * rates.size());
    rate.ObserveTests(iteration, Round(iteration, score, 0));
    rates.push_back(rate.At(iteration));
  }
  EXPECT_EQ(rates, (std::vector<double>{1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.125}));
}

TEST_F(PlateauOnTest, SmallerErrorsAreBetterAndMinDeltaCounts) {
  LearningRate rate = Make("metric: 'error' patience: 1 min_delta: 0.1");
  EXPECT_FALSE(rate.ObserveTests(0, Round(0, 0, 1)));
  EXPECT_FALSE(rate.ObserveTests(10, Round(10, 0, 0.5)));
  EXPECT_TRUE(rate.ObserveTests(20, Round(20, 0, 0.45)));
  EXPECT_FALSE(rate.ObserveTests(30, Round(30, 0, 0.3)));
}

TEST_F(PlateauOnTest, TheTrainingLossIsNotLookedAt) {
  LearningRate rate = Make("metric: 'score'");
  for (int64_t i = 0; i < 100; ++i) EXPECT_FALSE(rate.ObserveLoss(i, 1));
  EXPECT_EQ(rate.At(100), 1);
}

TEST_F(PlateauOnTest, GoesOnFromItsState) {
  const std::string rule = "metric: 'score' patience: 2";
  const std::vector<double> scores = {0.5, 0.6, 0.6, 0.55, 0.7, 0.6, 0.6, 0.6, 0.6, 0.8, 0.1, 0.1};
  const auto follow = [&](LearningRate* rate, size_t begin, size_t end) {
    std::vector<double> rates;
    for (size_t i = begin; i < end; ++i) {
      const auto iteration = static_cast<int64_t>(10 * i);
      rate->ObserveTests(iteration, Round(iteration, scores[i], 0));
      rates.push_back(rate->At(iteration));
    }
    return rates;
  };
  LearningRate whole = Make(rule);
  const std::vector<double> rates = follow(&whole, 0, scores.size());
  for (size_t cut = 0; cut < scores.size(); ++cut) {
    LearningRate before = Make(rule);
    follow(&before, 0, cut);
    SolverState state;
    before.Save(&state);
    LearningRate after = Make(rule);
    after.Restore(state);
    EXPECT_EQ(follow(&after, cut, scores.size()),
              std::vector<double>(rates.begin() + static_cast<int64_t>(cut), rates.end()))
        << cut;
  }
}

TEST_F(PlateauOnTest, AMetricThatNoTestComputesIsRefused) {
  try {
    Make("metric: 'scor'");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.problems().front().where.field, "plateau.metric");
    EXPECT_NE(std::string(error.what()).find("did you mean 'score'"), std::string::npos)
        << error.what();
  }
}

// A net that has nothing to learn: both plateaus are reached. Tests draw nothing.
constexpr const char* kNoise = R"(
layer { name: "data" type: "DummyData" top: "x" top: "t" include { phase: TEST }
  dummy_data_param { shape { dim: 6 dim: 4 } shape { dim: 6 dim: 3 }
    data_filler { value: 0.5 } data_filler { value: 0.1 } } }
layer { name: "data" type: "DummyData" top: "x" top: "t" include { phase: TRAIN }
  dummy_data_param { shape { dim: 6 dim: 4 } shape { dim: 6 dim: 3 }
    data_filler { type: "gaussian" } data_filler { type: "gaussian" } } }
layer { name: "out" type: "InnerProduct" bottom: "x" top: "y"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "y" bottom: "t" top: "loss" }
)";

class PlateauRecorder : public TrainingObserver {
 public:
  void OnIteration(const IterationReport& r) override { rates[r.iteration] = r.rate; }
  std::map<int64_t, double> rates;
};

// Rates and final weights of a run to iteration 40, resumed from `state` if that is set.
std::pair<std::map<int64_t, double>, std::vector<float>> TrainOnNoise(const std::string& rest,
                                                                      const std::string& state) {
  PlateauRecorder recorder;
  SolverOptions options;
  options.threads = 1;
  options.observer = &recorder;
  Solver solver(
      MakeRunConfig(ParseSolver(
          StrCat("net_param { ", kNoise,
                 " } base_lr: 0.05 gamma: 0.5 lr_policy: \"plateau\" momentum: 0.9 random_seed: 3 "
                 "max_iter: 40 average_loss: 3 ",
                 rest),
          "s")),
      TestRegistry(), std::move(options));
  if (!state.empty()) solver.Restore(state);
  solver.Solve();
  std::vector<float> weights = ValuesOf(std::as_const(solver.weights()).blob(0));
  return {recorder.rates, weights};
}

TEST(Plateau, AResumedRunDropsWhereTheWholeRunDoes) {
  for (const std::string policy : {"plateau_winsize: [4, 4, 4, 4, 4, 4]",
#ifdef CREMA_HAVE_HDF5
                                   "plateau_winsize: [4, 4, 4, 4, 4, 4] snapshot_format: HDF5",
                                   "test_iter: 1 test_interval: 2 plateau { patience: 2 } "
                                   "snapshot_format: HDF5",
#endif
                                   "test_iter: 1 test_interval: 2 plateau { patience: 2 }"}) {
    const TempDir temp;
    const char* suffix = policy.find("HDF5") != std::string::npos ? ".h5" : "";
    const std::string rest =
        StrCat(policy, " snapshot: 7 snapshot_prefix: \"", temp.path(), "/s\"");
    const auto [rates, weights] = TrainOnNoise(rest, "");
    EXPECT_LE(rates.at(39), 0.05 / 8) << policy;  // three drops at least
    for (const int cut : {7, 14, 21, 28, 35}) {
      const auto [resumed_rates, resumed_weights] =
          TrainOnNoise(rest, StrCat(temp.path(), "/s_iter_", cut, ".solverstate", suffix));
      EXPECT_EQ(resumed_weights, weights) << policy << " " << cut;
      for (const auto& [iteration, rate] : resumed_rates) {
        EXPECT_EQ(rate, rates.at(iteration)) << policy << " " << cut << " " << iteration;
      }
    }
  }
}

TEST(Plateau, ARunWithoutTestNetsSaysSo) {
  try {
    Solver(MakeRunConfig(ParseSolver(
               StrCat("train_net_param { ", kNoise,
                      " } base_lr: 1 gamma: 0.5 lr_policy: \"plateau\" max_iter: 1\n"
                      "test_interval: 2 plateau { patience: 2 } snapshot_after_train: false"),
               "s")),
           TestRegistry(), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("plateau looks at tests, but this run has no test"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace crema
