#include "plan/memory/memory_budget.h"

#include <gtest/gtest.h>

#include <set>

#include "core/strings.h"
#include "crema.pb.h"
#include "support/net.h"

namespace crema {
namespace {

using test::PlanText;

constexpr int64_t kMebibyte = 1 << 20;

// Blocks of convolution, BatchNorm, Scale, ReLU, each 64 KiB an image of values.
std::string Net(int blocks, const std::string& head = "") {
  std::string text = head + R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 32 dim: 16 dim: 32 dim: 32 } } }
)";
  std::string bottom = "x";
  for (int i = 0; i < blocks; ++i) {
    const std::string n = std::to_string(i);
    const auto layer = [&](const std::string& type, const std::string& from, const std::string& to,
                           const std::string& more) {
      text += "layer { name: '" + type + n + "' type: '" + type + "' bottom: '" + from +
              "' top: '" + to + n + "' " + more + "}\n";
    };
    layer("Convolution", bottom, "c",
          "convolution_param { num_output: 16 kernel_size: 3 pad: 1 "
          "weight_filler { type: 'xavier' } }");
    layer("BatchNorm", "c" + n, "c", "");
    layer("Scale", "c" + n, "c", "scale_param { bias_term: true } ");
    layer("ReLU", "c" + n, "r", "");
    bottom = "r" + n;
  }
  return text + "layer { name: 'loss' type: 'Reduction' bottom: '" + bottom +
         "' top: 'loss' loss_weight: 1 }";
}

std::set<std::string> Chosen(const Plan& plan) {
  std::set<std::string> names;
  for (const PlannedLayer& layer : plan.layers) {
    if (layer.recompute) names.insert(layer.name());
  }
  return names;
}

std::string Budget(int64_t mebibytes) { return StrCat("memory_budget: ", mebibytes, "\n"); }

TEST(MemoryBudget, AWideOneChangesNothing) {
  const auto plain = PlanText(Net(6));
  const auto wide = PlanText(Net(6, Budget(1000)));
  EXPECT_TRUE(Chosen(*wide).empty());
  EXPECT_EQ(plain->arena_bytes, wide->arena_bytes);
}

TEST(MemoryBudget, ASmallerOneComputesMoreAgainUntilItIsAnErrorThatSaysHowSmallItGets) {
  const int64_t all = PlanText(Net(6))->arena_bytes / kMebibyte + 1;
  std::set<std::string> before;
  int64_t budget = all;
  std::string error;
  for (; budget > 0 && error.empty(); --budget) {
    try {
      const auto plan = PlanText(Net(6, Budget(budget)));
      EXPECT_LE(plan->arena_bytes, budget * kMebibyte);
      const std::set<std::string> chosen = Chosen(*plan);
      EXPECT_TRUE(std::ranges::includes(chosen, before)) << budget;
      before = chosen;
    } catch (const Error& e) {
      error = e.what();
    }
  }
  const int64_t refused = budget + 1;
  EXPECT_LT(refused, all * 6 / 10);
  const std::string smallest = StrCat("is ", refused + 1, " MiB");
  EXPECT_NE(error.find(smallest), std::string::npos) << error;
  EXPECT_NE(error.find("net.prototxt:1"), std::string::npos) << error;
}

TEST(MemoryBudget, TakesCheapLayersFirst) {
  const int64_t all = PlanText(Net(6))->arena_bytes;
  const auto plan = PlanText(Net(6, Budget(all * 8 / 10 / kMebibyte)));
  EXPECT_FALSE(Chosen(*plan).empty());
  for (const std::string& name : Chosen(*plan)) EXPECT_EQ(name.find("Conv"), std::string::npos);
}

TEST(MemoryBudget, KeepsToWhatTheUserMarkedAndAddsToIt) {
  std::string text = Net(6, Budget(PlanText(Net(6))->arena_bytes * 8 / 10 / kMebibyte));
  text.insert(text.find("name: 'ReLU2'"), "recompute: true ");
  EXPECT_TRUE(Chosen(*PlanText(text)).contains("ReLU2"));
}

TEST(MemoryBudget, IsOfTrainingOnly) {
  EXPECT_GT(PlanText(Net(2, Budget(1)), TEST, {.backward = false})->arena_bytes, kMebibyte);
  EXPECT_GT(PlanText(Net(2, Budget(1)), TRAIN, {.optimize = false})->arena_bytes, kMebibyte);
}

// Layers that cannot run again are never chosen, whatever the budget.
TEST(MemoryBudget, LeavesOutLayersThatCannotRunAgain) {
  const std::string text = R"(memory_budget: 1
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 64 dim: 32 dim: 64 } } }
layer { name: "cont" type: "Input" top: "cont" input_param { shape { dim: 64 dim: 32 } } }
layer { name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" top: "y"
  recurrent_param { num_output: 64 weight_filler { type: "xavier" } } }
layer { name: "t" type: "TanH" bottom: "y" top: "t" }
layer { name: "loss" type: "Reduction" bottom: "t" top: "loss" loss_weight: 1 }
)";
  const std::string error = test::PlanError(text);
  EXPECT_NE(error.find("memory_budget is 1 MiB"), std::string::npos) << error;
}

}  // namespace
}  // namespace crema
