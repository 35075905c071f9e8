// The queries to an ImplementationTimer, and plans by its results.
#include "plan/measure_implementations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/memory_format.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "plan/implementation_timer.h"
#include "plan/plan_parts.h"
#include "support/net.h"

namespace crema {
namespace {

using test::HasBlockedConvolution;
using test::LayerOf;
using test::PlanText;

// Returns times by implementation; those without one take a second. Without times it measures
// nothing.
class FakeTimer final : public ImplementationTimer {
 public:
  std::vector<double> Measure(const std::string& layer, const OpDesc& query,
                              std::span<const Implementation* const> implementations) override {
    asked.push_back(layer);
    backward.push_back(query.backward);
    std::vector<double> answer;
    if (seconds.empty()) return answer;
    for (const Implementation* implementation : implementations) {
      answer.push_back(seconds.contains(implementation->name) ? seconds[implementation->name] : 1);
    }
    return answer;
  }
  void Save() override { ++saved; }

  std::map<std::string, double> seconds;
  std::vector<std::string> asked;
  std::vector<bool> backward;
  int saved = 0;
};

std::string MeasuredConv(const std::string& name, const std::string& bottom, int kernel,
                         const std::string& filler = "xavier") {
  return StrCat("layer { name: '", name, "' type: 'Convolution' bottom: '", bottom, "' top: '",
                name, "' convolution_param { num_output: 32 kernel_size: ", kernel,
                " pad: ", kernel / 2, " weight_filler { type: '", filler, "' } } }\n");
}

std::string Net() {
  return "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 32 dim: 32 "
         "dim: 32 } } }\n" +
         MeasuredConv("a", "x", 1) + MeasuredConv("b", "a", 3) + MeasuredConv("c", "b", 3, "msra") +
         "layer { name: 'r' type: 'Reduction' bottom: 'c' top: 'r' loss_weight: 1 }\n";
}

class MeasuredPlan : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasBlockedConvolution())
      GTEST_SKIP() << "no implementation of this build takes blocked blobs";
  }
  std::shared_ptr<const Plan> Make(PlanOptions options = {.backward = false}) {
    options.implementation_timer = timer_;
    return PlanText(Net(), TEST, options);
  }
  std::shared_ptr<FakeTimer> timer_ = std::make_shared<FakeTimer>();
};

TEST_F(MeasuredPlan, EqualLayersAreAskedAboutOnceTheLargestFirst) {
  Make();
  ASSERT_EQ(timer_->asked.size(), 2U);
  EXPECT_NE(timer_->asked[0].find("kernel_size: 3"), std::string::npos) << timer_->asked[0];
  EXPECT_NE(timer_->asked[1].find("kernel_size: 1"), std::string::npos) << timer_->asked[1];
  EXPECT_EQ(timer_->saved, 1);
}

TEST_F(MeasuredPlan, TheTextHoldsWhatTimeDependsOn) {
  Make();
  const std::string forward = timer_->asked[0];
  EXPECT_EQ(forward.find("filler"), std::string::npos) << forward;
  EXPECT_EQ(forward.find('\n'), std::string::npos);
  for (const char* part : {"type: \"Convolution\"", "2x32x32x32", "1 thread"}) {
    EXPECT_NE(forward.find(part), std::string::npos) << forward;
  }
  timer_->asked.clear();
  Make({.threads = 2, .backward = true});
  // The data need no gradient, so "a" is another case.
  EXPECT_NE(timer_->asked[0].find("backward to input, 2 threads"), std::string::npos);
  EXPECT_NE(timer_->asked[1].find("backward, 2 threads"), std::string::npos);
  EXPECT_TRUE(timer_->backward.back());
}

TEST_F(MeasuredPlan, TheFastestImplementationIsTaken) {
  timer_->seconds = {{"onednn", 1e-4}, {"winograd", 2e-4}, {"packed", 1e-2}};
  const auto slow_winograd = Make();
  EXPECT_EQ(LayerOf(*slow_winograd, "b").implementation->name, "onednn");
  EXPECT_TRUE(LayerOf(*slow_winograd, "b").tuned);
  EXPECT_NE(DescribePlan(*slow_winograd).find("onednn, tuned"), std::string::npos);
}

TEST_F(MeasuredPlan, ThePlanSaysHowMuchLongerOthersTake) {
  timer_->seconds = {{"onednn", 1e-4}, {"winograd", 2e-4}, {"packed", 1e-2}};
  if (LayerOf(*PlanText(Net(), TEST, {.backward = false}), "b").implementation->name !=
      "winograd") {
    GTEST_SKIP() << "this processor has no Winograd convolution";
  }
  const auto reason_of = [](const PlannedLayer& layer, const std::string& implementation) {
    const auto skipped =
        std::ranges::find(layer.skipped, implementation, &SkippedImplementation::implementation);
    return skipped == layer.skipped.end() ? "" : skipped->reason;
  };
  EXPECT_EQ(reason_of(LayerOf(*Make(), "b"), "winograd"), "takes 2 times as long");
  timer_->seconds["winograd"] = 5e-5;
  const auto plan = Make();
  EXPECT_EQ(LayerOf(*plan, "b").implementation->name, "winograd");
  EXPECT_EQ(reason_of(LayerOf(*plan, "b"), "onednn"), "takes 2 times as long");
}

TEST_F(MeasuredPlan, FormatsFollowFromTheTimes) {
  timer_->seconds = {{"onednn", 1e-2}, {"winograd", 1e-2}, {"packed", 1e-4}};
  const auto plan = Make();
  EXPECT_EQ(LayerOf(*plan, "b").implementation->name, "packed");
  EXPECT_TRUE(std::ranges::none_of(
      plan->values, [](const PlannedValue& value) { return value.spec.format != MemoryFormat{}; }));
  // In training a reorder is done twice.
  EXPECT_EQ(LayerOf(*Make({.backward = true}), "b").implementation->name, "packed");
}

TEST_F(MeasuredPlan, FormatsThatAreHardlyFasterAreNotWorthIt) {
  timer_->seconds = {{"onednn", 1.01e-2}, {"winograd", 1.01e-2}, {"packed", 1e-2}};
  EXPECT_EQ(LayerOf(*Make(), "b").implementation->output_format, MemoryFormat{Layout::kBlocked});
  timer_->seconds["packed"] = 0.9e-2;
  EXPECT_EQ(LayerOf(*Make(), "b").implementation->output_format, MemoryFormat{});
}

TEST_F(MeasuredPlan, UnmeasuredLayersAreEstimated) {
  const std::string measured = DescribePlan(*Make());
  timer_ = nullptr;
  EXPECT_EQ(measured, DescribePlan(*Make()));
}

TEST_F(MeasuredPlan, SomePlansMayNotDependOnTimes) {
  Make({.backward = false, .deterministic = true});
  Make({.backward = false, .optimize = false});
  EXPECT_TRUE(timer_->asked.empty());
  Make({.backward = false, .passes = {.optimized_implementations = false}});
  EXPECT_TRUE(timer_->asked.empty());
}

TEST_F(MeasuredPlan, ImplementationsOfOtherFormatsAreNotMeasuredInPlainNets) {
  timer_->seconds = {{"packed", 1e-2}};
  const auto plan = Make({.backward = false, .passes = {.memory_formats = false}});
  EXPECT_TRUE(timer_->asked.empty());
  EXPECT_EQ(LayerOf(*plan, "b").implementation->name, "packed");
}

}  // namespace
}  // namespace crema
