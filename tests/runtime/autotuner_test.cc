// Measuring within a bound, and times stored from run to run.
#include "runtime/autotuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/log.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "runtime/implementation_bench.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::PlanText;
using test::TempDir;

class WarningCounter final : public LogSink {
 public:
  void Write(Severity severity, std::string_view message) override {
    (severity == Severity::kWarning ? warnings : infos).emplace_back(message);
  }
  std::vector<std::string> warnings;
  std::vector<std::string> infos;
};

// Every type with several implementations.
constexpr const char* kTunedNet = R"(
layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 dim: 20 dim: 20 } } }
layer { name: 'a' type: 'Convolution' bottom: 'x' top: 'a' convolution_param { num_output: 32
  kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }
layer { name: 'n' type: 'BatchNorm' bottom: 'a' top: 'n' }
layer { name: 's' type: 'Scale' bottom: 'n' top: 's' scale_param { bias_term: true } }
layer { name: 'b' type: 'Convolution' bottom: 's' top: 'b' convolution_param { num_output: 32
  group: 32 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }
layer { name: 'l' type: 'LRN' bottom: 'b' top: 'l' }
layer { name: 'm' type: 'Pooling' bottom: 'l' top: 'm' pooling_param { kernel_size: 2 stride: 2 } }
layer { name: 'c' type: 'Convolution' bottom: 'm' top: 'c' convolution_param { num_output: 32
  kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }
layer { name: 'p' type: 'Pooling' bottom: 'c' top: 'p' pooling_param { pool: AVE kernel_size: 10 } }
layer { name: 'r' type: 'Reduction' bottom: 'p' top: 'r' loss_weight: 1
  reduction_param { operation: SUMSQ } }
)";

// Times from the order of the implementations, the last one the fastest; counts how often it is
// asked.
Autotuner::TimeImplementationsFunction FakeTimes(int* calls) {
  return [calls](const OpDesc&, std::span<const Implementation* const> implementations,
                 Autotuner::Clock::time_point) {
    ++*calls;
    std::vector<double> seconds;
    for (size_t r = 0; r < implementations.size(); ++r) {
      seconds.push_back(1e-3 / static_cast<double>(r + 1));
    }
    return seconds;
  };
}

std::shared_ptr<const Plan> PlanWith(const std::shared_ptr<ImplementationTimer>& timer) {
  return PlanText(kTunedNet, TRAIN, {.threads = 2, .implementation_timer = timer});
}

class Autotune : public testing::Test {
 protected:
  void SetUp() override {
    auto timer = std::make_shared<Autotuner>(AutotuneOptions{.seconds = 1}, FakeTimes(&kinds_));
    PlanWith(timer);
    if (kinds_ == 0) GTEST_SKIP() << "no layer has several implementations in this build";
  }
  std::shared_ptr<Autotuner> Make(int* calls, double seconds = 1) {
    return std::make_shared<Autotuner>(
        AutotuneOptions{.seconds = seconds, .folder = temp_.path(), .build = build_, .log = &log_},
        FakeTimes(calls));
  }
  int kinds_ = 0;  // of layers
  TempDir temp_;
  std::string build_ = "Crema test";
  WarningCounter log_;
};

TEST_F(Autotune, MeasuresOnceAndThenReads) {
  int first = 0;
  const auto timer = Make(&first);
  const std::string plan = DescribePlan(*PlanWith(timer));
  EXPECT_EQ(first, kinds_);
  EXPECT_EQ(DescribePlan(*PlanWith(timer)), plan);
  EXPECT_EQ(first, kinds_) << "measured again";
  int second = 0;
  EXPECT_EQ(DescribePlan(*PlanWith(Make(&second))), plan);
  EXPECT_EQ(second, 0);
  EXPECT_NE(log_.infos.back().find(StrCat("0 kinds of layers measured")), std::string::npos);
  EXPECT_TRUE(log_.warnings.empty());
}

TEST_F(Autotune, EnginesAreMeasuredOnceAndThenRead) {
  const std::vector<std::string> names{"one", "two", "three"};
  int measured = 0;
  const auto measure = [&](size_t i) {
    ++measured;
    return i == 1 ? std::numeric_limits<double>::infinity() : static_cast<double>(3 - i);
  };
  const auto seconds_of = [&](double bound, const std::string& work) {
    int implementations = 0;
    return Make(&implementations, bound)->MeasureEngines(work, names, measure);
  };
  const std::vector<double> seconds = seconds_of(100, "work");
  ASSERT_EQ(seconds.size(), 3U);
  EXPECT_EQ(std::ranges::min_element(seconds) - seconds.begin(), 2);
  EXPECT_GT(seconds[1], 1e6);  // cannot be had
  EXPECT_EQ(seconds_of(100, "work"), seconds);
  EXPECT_EQ(measured, 3) << "measured again";
  seconds_of(100, "other work");
  EXPECT_EQ(measured, 6);
  EXPECT_TRUE(seconds_of(1e-9, "work without time").empty());
}

TEST_F(Autotune, OtherBuildsMeasureForThemselves) {
  int calls = 0;
  PlanWith(Make(&calls));
  build_ = "Crema next";
  PlanWith(Make(&calls));
  EXPECT_EQ(calls, 2 * kinds_);
}

TEST_F(Autotune, UntimedKindsStayUntimedUntilTheTimeLimitGrows) {
  const auto nothing = [](const OpDesc&, std::span<const Implementation* const>,
                          Autotuner::Clock::time_point) { return std::vector<double>(); };
  const std::string estimated = DescribePlan(*PlanWith(nullptr));
  const auto timer = std::make_shared<Autotuner>(
      AutotuneOptions{.seconds = 1, .folder = temp_.path(), .build = build_, .log = &log_},
      nothing);
  EXPECT_EQ(DescribePlan(*PlanWith(timer)), estimated);
  EXPECT_NE(log_.infos.back().find(StrCat(kinds_, " left to estimates")), std::string::npos);
  int calls = 0;
  EXPECT_EQ(DescribePlan(*PlanWith(Make(&calls, 1))), estimated);
  EXPECT_EQ(calls, 0) << "a rerun would compute other bits";
  PlanWith(Make(&calls, 2));
  EXPECT_EQ(calls, kinds_);
  int again = 0;
  PlanWith(Make(&again, 1));
  EXPECT_EQ(again, 0);
}

TEST_F(Autotune, TheBoundIsForAllPlansTogether) {
  int calls = 0;
  const auto slow = [&](const OpDesc&, std::span<const Implementation* const> implementations,
                        Autotuner::Clock::time_point deadline) {
    ++calls;
    while (Autotuner::Clock::now() < deadline) {
    }
    return std::vector<double>(implementations.size(), 1);
  };
  const auto timer = std::make_shared<Autotuner>(AutotuneOptions{.seconds = 0.01}, slow);
  PlanWith(timer);
  PlanWith(timer);
  EXPECT_EQ(calls, 1);
}

TEST_F(Autotune, ADamagedFileIsOneWarningAndIsReplaced) {
  temp_.Write("implementation_times", "something else");
  int calls = 0;
  const auto timer = Make(&calls);
  PlanWith(timer);
  EXPECT_EQ(calls, kinds_);
  EXPECT_EQ(log_.warnings.size(), 1U);
  PlanWith(Make(&calls));
  EXPECT_EQ(calls, kinds_);
  EXPECT_EQ(log_.warnings.size(), 1U);
}

TEST_F(Autotune, WithoutAFolderItMeasuresAndWarnsOnce) {
  temp_.Write("file", "");
  int calls = 0;
  const auto timer = std::make_shared<Autotuner>(
      AutotuneOptions{.seconds = 1, .folder = temp_.File("file/below"), .log = &log_},
      FakeTimes(&calls));
  PlanWith(timer);
  PlanText(kTunedNet, TEST, {.backward = false, .implementation_timer = timer});
  EXPECT_GT(calls, kinds_);
  ASSERT_EQ(log_.warnings.size(), 1U);
  EXPECT_NE(log_.warnings[0].find("not saved"), std::string::npos) << log_.warnings[0];
}

// A plan by measured times computes the same as any other plan.
TEST_F(Autotune, RealTimesMakePlansThatLearnTheSame) {
  int empty = 0;
  const auto time_implementations = [&](const OpDesc& query,
                                        std::span<const Implementation* const> implementations,
                                        Autotuner::Clock::time_point deadline) {
    const std::vector<double> seconds =
        TimeImplementations(query, implementations, deadline, DisturbedRuns::kCount);
    empty += seconds.empty() ? 1 : 0;
    for (const double s : seconds) EXPECT_GT(s, 0);
    return seconds;
  };
  const AutotuneOptions options{.seconds = 60, .folder = temp_.path()};
  const auto learn = [](const std::shared_ptr<const Plan>& plan) {
    const std::shared_ptr<const Weights> weights = Weights::Make(*plan, 3);
    Session session(plan, weights, ExecContext(2, 3));
    test::FillInput(&session, "x", 1);
    return session.Forward();
  };
  const auto plan = PlanWith(std::make_shared<Autotuner>(options, time_implementations));
  EXPECT_EQ(empty, 0);
  EXPECT_TRUE(std::ranges::any_of(plan->layers, &PlannedLayer::tuned));
  const double loss = learn(plan);
  EXPECT_NEAR(loss, learn(PlanText(kTunedNet, TRAIN, {.optimize = false})), 1e-3 * loss);
  EXPECT_EQ(loss, learn(PlanWith(std::make_shared<Autotuner>(options, time_implementations))))
      << "not the same bits with the same file";
  // Forward alone, of the layers as they are for testing.
  PlanText(kTunedNet, TEST,
           {.backward = false,
            .implementation_timer = std::make_shared<Autotuner>(options, time_implementations)});
  EXPECT_EQ(empty, 0);
}

TEST_F(Autotune, NothingIsTimedBeyondTheDeadline) {
  const auto late = [](const OpDesc& query, std::span<const Implementation* const> implementations,
                       Autotuner::Clock::time_point) {
    return TimeImplementations(query, implementations, Autotuner::Clock::now(),
                               DisturbedRuns::kCount);
  };
  const auto plan = PlanWith(std::make_shared<Autotuner>(AutotuneOptions{.seconds = 1}, late));
  EXPECT_TRUE(std::ranges::none_of(plan->layers, &PlannedLayer::tuned));
}

}  // namespace
}  // namespace crema
