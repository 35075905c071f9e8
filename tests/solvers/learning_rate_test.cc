#include "solvers/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/prototxt.h"

namespace crema {
namespace {

SolverParameter RateParam(const std::string& text) {
  return ParseSolver(text, "solver.prototxt").solver;
}

// The rates of iterations 0..count-1, in order, as a run asks for them.
std::vector<double> Rates(const std::string& text, int64_t count) {
  LearningRate rate(RateParam(text));
  std::vector<double> rates;
  for (int64_t i = 0; i < count; ++i) rates.push_back(rate.At(i));
  return rates;
}

void ExpectRates(const std::string& text, const std::vector<double>& expected) {
  const std::vector<double> rates = Rates(text, static_cast<int64_t>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(rates[i], expected[i], 1e-7 * std::abs(expected[i]) + 1e-15)
        << text << "\niteration " << i;
  }
}

TEST(LearningRate, PoliciesOfCaffe) {
  const std::string base = "base_lr: 0.5 ";
  EXPECT_DOUBLE_EQ(LearningRate(RateParam(base + "lr_policy: \"fixed\"")).At(99), 0.5);
  LearningRate step(RateParam(base + "lr_policy: \"step\" gamma: 0.5 stepsize: 10"));
  EXPECT_DOUBLE_EQ(step.At(9), 0.5);
  EXPECT_DOUBLE_EQ(step.At(10), 0.25);
  EXPECT_DOUBLE_EQ(step.At(29), 0.125);
  EXPECT_EQ(step.current_step(), 2);
  EXPECT_DOUBLE_EQ(LearningRate(RateParam(base + "lr_policy: \"exp\" gamma: 0.5")).At(3), 0.0625);
  EXPECT_NEAR(LearningRate(RateParam(base + "lr_policy: \"inv\" gamma: 0.25 power: 2")).At(4),
              0.5 * std::pow(2.0, -2), 1e-9);
  EXPECT_NEAR(LearningRate(RateParam(base + "lr_policy: \"poly\" power: 2 max_iter: 10")).At(5),
              0.125, 1e-9);
  EXPECT_NEAR(LearningRate(RateParam(base + "lr_policy: \"sigmoid\" gamma: 2 stepsize: 5")).At(6),
              0.5 / (1 + std::exp(-2.0)), 1e-9);
}

TEST(LearningRate, MultistepAdvancesAtMostOneStepAnIteration) {
  LearningRate rate(RateParam(
      "base_lr: 1 lr_policy: \"multistep\" gamma: 0.5 stepvalue: 2 stepvalue: 3 stepvalue: 3"));
  EXPECT_DOUBLE_EQ(rate.At(1), 1);
  EXPECT_DOUBLE_EQ(rate.At(2), 0.5);
  EXPECT_DOUBLE_EQ(rate.At(3), 0.25);
  EXPECT_DOUBLE_EQ(rate.At(4), 0.125);
  EXPECT_DOUBLE_EQ(rate.At(5), 0.125);
  EXPECT_EQ(rate.current_step(), 3);
  EXPECT_EQ(rate.most_steps(), 3);
}

// A state of Caffe without current_step: the steps come back one an iteration.
TEST(LearningRate, MultistepCatchesUpOneStepAnIteration) {
  LearningRate rate(
      RateParam("base_lr: 1 lr_policy: \"multistep\" gamma: 0.5 stepvalue: 2 stepvalue: 3"));
  rate.Restore(SolverState());
  EXPECT_DOUBLE_EQ(rate.At(100), 0.5);
  EXPECT_DOUBLE_EQ(rate.At(101), 0.25);
  EXPECT_DOUBLE_EQ(rate.At(102), 0.25);
}

TEST(LearningRate, PolyEndsAtItsFloorAndStaysThere) {
  const std::string poly = "base_lr: 1 lr_policy: \"poly\" power: 0.5 max_iter: 4 ";
  ExpectRates(poly, {1, std::sqrt(0.75), std::sqrt(0.5), 0.5, 0, 0, 0});
  // NVCaffe's: (base_lr - min_lr) * (1 - iter / max_iter) ^ power + min_lr.
  ExpectRates(poly + "min_lr: 0.25", {1, 0.75 * std::sqrt(0.75) + 0.25,
                                      0.75 * std::sqrt(0.5) + 0.25, 0.625, 0.25, 0.25, 0.25});
  EXPECT_EQ(LearningRate(RateParam("base_lr: 1 lr_policy: \"poly\" power: 1 max_iter: 0")).At(0),
            0);
  EXPECT_EQ(LearningRate(RateParam("base_lr: 1 lr_policy: \"poly\" power: 0 max_iter: 3")).At(9),
            1);
}

TEST(LearningRate, CosineGoesFromBaseToFloor) {
  const std::string cosine = "base_lr: 1 lr_policy: \"cosine\" max_iter: 6 ";
  ExpectRates(cosine, {1, 0.5 + std::sqrt(3) / 4, 0.75, 0.5, 0.25, 0.5 - std::sqrt(3) / 4, 0, 0});
  ExpectRates(cosine + "min_lr: 0.5",
              {1, 0.75 + std::sqrt(3) / 8, 0.875, 0.75, 0.625, 0.75 - std::sqrt(3) / 8, 0.5, 0.5});
}

TEST(LearningRate, MultifixedTakesTheStageThatHasNotEnded) {
  // A stage ends after its stageiter; the last one continues.
  ExpectRates(
      "lr_policy: \"multifixed\" stagelr: 0.5 stagelr: 0.25 stagelr: 0.125 "
      "stageiter: 1 stageiter: 2 stageiter: 4",
      {0.5, 0.5, 0.25, 0.125, 0.125, 0.125, 0.125});
}

// Computed in Python by a transcription of get_lr of PyTorch's OneCycleLR (two phases, total_steps
// of 10, max_lr of 1, cycle_momentum=False).
TEST(LearningRate, OneCycleEqualsPyTorch) {
  const std::string base = "base_lr: 1 lr_policy: \"one_cycle\" max_iter: 10 ";
  ExpectRates(base, {0.04, 0.52, 1, 0.950484632013, 0.81174565395, 0.611262021936, 0.388741978064,
                     0.18825834605, 0.0495193679865, 4e-06});
  ExpectRates(base + "one_cycle_param { anneal: LINEAR }",
              {0.04, 0.52, 1, 0.857143428571, 0.714286857143, 0.571430285714, 0.428573714286,
               0.285717142857, 0.142860571429, 4e-06});
  ExpectRates(
      base + "one_cycle_param { pct_start: 0.5 div_factor: 4 final_div_factor: 8 anneal: COS }",
      {0.25, 0.359834957055, 0.625, 0.890165042945, 1, 0.90749260665, 0.66530510665, 0.36594489335,
       0.12375739335, 0.03125});
}

TEST(LearningRate, OneCycleHoldsItsLastRate) {
  LearningRate rate(RateParam("base_lr: 1 lr_policy: \"one_cycle\" max_iter: 10"));
  EXPECT_DOUBLE_EQ(rate.At(10), rate.At(9));
  EXPECT_DOUBLE_EQ(rate.At(1000), rate.At(9));
}

TEST(LearningRate, OneCyclesOfOneIterationAndWithoutAPhaseAreFinite) {
  for (const char* rest :
       {"max_iter: 0", "max_iter: 1", "max_iter: 2", "max_iter: 4 one_cycle_param { pct_start: 0 }",
        "max_iter: 4 one_cycle_param { pct_start: 0.25 }",
        "max_iter: 4 one_cycle_param { pct_start: 1 }"}) {
    for (const double rate : Rates(StrCat("base_lr: 1 lr_policy: \"one_cycle\" ", rest), 6)) {
      EXPECT_TRUE(rate > 0 && rate <= 1) << rest << ": " << rate;
    }
  }
}

// Every policy, with the fields it needs and max_iter: 100.
const std::vector<std::string>& AllPolicies() {
  static const std::vector<std::string> policies = {
      "lr_policy: \"fixed\"",
      "lr_policy: \"step\" gamma: 0.5 stepsize: 20",
      "lr_policy: \"exp\" gamma: 0.99",
      "lr_policy: \"inv\" gamma: 0.1 power: 0.75",
      "lr_policy: \"multistep\" gamma: 0.5 stepvalue: 30 stepvalue: 60",
      "lr_policy: \"poly\" power: 0.9",
      "lr_policy: \"sigmoid\" gamma: 0.1 stepsize: 50",
      "lr_policy: \"cosine\"",
      "lr_policy: \"one_cycle\"",
      "lr_policy: \"plateau\" gamma: 0.5 plateau_winsize: 10",
      "lr_policy: \"multifixed\" stagelr: 0.5 stagelr: 0.1 stageiter: 30 stageiter: 60",
  };
  return policies;
}

TEST(LearningRate, EveryPolicyIsHere) {
  ASSERT_EQ(AllPolicies().size(), LrPolicies().size());
  for (size_t i = 0; i < AllPolicies().size(); ++i) {
    EXPECT_NE(AllPolicies()[i].find("\"" + LrPolicies()[i].name + "\""), std::string::npos);
  }
}

TEST(LearningRate, EveryPolicyWarmsUpAndGoesOnWithPlainIterations) {
  for (const std::string& policy : AllPolicies()) {
    const std::string text = "base_lr: 0.5 max_iter: 100 " + policy;
    const std::vector<double> plain = Rates(text, 120);
    const std::vector<double> warm = Rates(text + " warmup_iter: 8 warmup_start_lr: 0.125", 120);
    for (size_t i = 0; i < 8; ++i) {
      EXPECT_NEAR(warm[i], 0.125 + (0.5 - 0.125) * static_cast<double>(i) / 8, 1e-15) << policy;
    }
    for (size_t i = 8; i < 120; ++i) EXPECT_EQ(warm[i], plain[i]) << policy << " " << i;

    const std::vector<double> ramp = Rates(text + " rampup_interval: 4 rampup_lr: 0.25", 120);
    const std::vector<double> quadratic = {0.25, 0.25 + 0.25 / 16, 0.25 + 0.25 / 4,
                                           0.25 + 0.25 * 9 / 16};
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(ramp[i], quadratic[i], 1e-15) << policy;
    for (size_t i = 4; i < 120; ++i) EXPECT_EQ(ramp[i], plain[i]) << policy << " " << i;
  }
}

TEST(LearningRate, WarmUpStartsFromZeroByDefault) {
  ExpectRates("base_lr: 1 lr_policy: \"fixed\" warmup_iter: 4", {0, 0.25, 0.5, 0.75, 1, 1});
}

TEST(LearningRate, NoPolicyGoesBelowMinLr) {
  for (const std::string& policy : AllPolicies()) {
    const std::string text = "base_lr: 0.5 max_iter: 100 warmup_iter: 5 " + policy;
    const std::vector<double> plain = Rates(text, 120);
    const std::vector<double> floored = Rates(text + " min_lr: 0.0625", 120);
    const bool ends_there = policy.find("poly") != std::string::npos ||  // min_lr is their end
                            policy.find("cosine") != std::string::npos;
    for (size_t i = 0; i < 120; ++i) {
      EXPECT_GE(floored[i], 0.0625) << policy << " " << i;
      if (ends_there) continue;
      EXPECT_EQ(floored[i], std::max(plain[i], 0.0625)) << policy << " " << i;
    }
  }
}

double MomentumFactor(const std::string& rise, int64_t iteration) {
  return WarmupMomentumFactor(RateParam("base_lr: 1 lr_policy: \"fixed\" " + rise), iteration);
}

TEST(LearningRate, MomentumFollowsTheWarmUp) {
  const std::vector<double> expected = {1, 0.625 / 0.5, 0.75 / 0.625, 0.875 / 0.75, 1, 1};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_DOUBLE_EQ(MomentumFactor("warmup_iter: 4 warmup_start_lr: 0.5", static_cast<int64_t>(i)),
                     expected[i]);
  }
  // From 0 the history holds nothing that could be scaled.
  EXPECT_EQ(MomentumFactor("warmup_iter: 4", 1), 1);
  EXPECT_EQ(MomentumFactor("warmup_iter: 4", 2), 2);
  // Not with NVCaffe's ramp, nor without a warm-up.
  EXPECT_EQ(MomentumFactor("rampup_interval: 4 rampup_lr: 0.5", 2), 1);
  EXPECT_EQ(MomentumFactor("", 2), 1);
}

std::string Schedule(const std::string& text) {
  std::string lines;
  for (const Problem& problem : CheckSchedule(RateParam(text))) {
    lines += problem.where.field + ": " + problem.message + "\n";
  }
  return lines;
}

TEST(CheckSchedule, SchedulesOfEveryPolicyAreSound) {
  for (const std::string& policy : AllPolicies()) {
    EXPECT_EQ(Schedule("base_lr: 0.5 max_iter: 100 " + policy), "") << policy;
    EXPECT_EQ(Schedule("base_lr: 0.5 " + policy), "") << policy;  // no end is known
  }
}

TEST(CheckSchedule, RatesThatLeaveTheNumbersAreFound) {
  // 2^1024 is beyond double.
  EXPECT_NE(Schedule("base_lr: 1 lr_policy: \"exp\" gamma: 2 max_iter: 5000")
                .find("the learning rate is inf in iteration 1024 (lr_policy 'exp')"),
            std::string::npos);
  EXPECT_EQ(Schedule("base_lr: 1 lr_policy: \"exp\" gamma: 2 max_iter: 1000"), "");
  EXPECT_EQ(Schedule("base_lr: -0.5 lr_policy: \"fixed\" max_iter: 10"),
            "base_lr: the learning rate is -0.5 in iteration 0 (lr_policy 'fixed'); it must be "
            "finite and not negative\n");
  EXPECT_NE(Schedule("base_lr: 1e30 lr_policy: \"plateau\" gamma: 1e38 max_iter: 10 "
                     "plateau_winsize: [1,1,1,1,1,1,1,1]")
                .find("after all drops"),
            std::string::npos);
}

TEST(CheckSchedule, LongRunsAreSampled) {
  EXPECT_EQ(Schedule("base_lr: 1 lr_policy: \"poly\" power: 2 max_iter: 2000000000"), "");
}

}  // namespace
}  // namespace crema
