#include "plan/memory/recompute.h"

#include <gtest/gtest.h>

#include "crema.pb.h"
#include "plan/memory/liveness.h"
#include "plan/memory/memory_planner.h"
#include "plan/plan_parts.h"
#include "support/net.h"

namespace crema {
namespace {

using test::LayerOf;
using test::PlanError;
using test::PlanText;

std::string RunsBefore(const Plan& plan, const std::string& name) {
  std::string names;
  for (int n : LayerOf(plan, name).runs_again) {
    names += plan.layers[static_cast<size_t>(n)].name() + " ";
  }
  return names;
}

std::string SmallConv(const std::string& name, const std::string& bottom,
                      const std::string& more = "") {
  return "layer { name: '" + name + "' type: 'Convolution' bottom: '" + bottom + "' top: '" + name +
         "' convolution_param { num_output: 4 kernel_size: 3 pad: 1 } " + more + "}\n";
}

std::string Simple(const std::string& type, const std::string& name, const std::string& bottom,
                   const std::string& top, const std::string& more = "") {
  return "layer { name: '" + name + "' type: '" + type + "' bottom: '" + bottom + "' top: '" + top +
         "' " + more + "}\n";
}

const std::string kInput =
    "layer { name: 'x' type: 'Input' top: 'x' "
    "input_param { shape { dim: 2 dim: 4 dim: 8 dim: 8 } } }\n";
const std::string kAgain = "recompute: true ";

std::string Loss(const std::string& bottom) {
  return Simple("Reduction", "loss", bottom, "loss", "loss_weight: 1");
}

TEST(Timeline, RunsChainsInOrderBeforeTheirFirstReader) {
  const std::string text =
      kInput + SmallConv("a", "x") + Simple("TanH", "b", "a", "b", kAgain) +
      Simple("Pooling", "c", "b", "c", "pooling_param { kernel_size: 2 } " + kAgain) +
      SmallConv("d", "c") + Loss("d");
  const auto plan = PlanText(text);
  EXPECT_EQ(RunsBefore(*plan, "d"), "b c ");
  EXPECT_EQ(RunsBefore(*plan, "c"), "");
  const Timeline timeline(*plan);
  EXPECT_EQ(timeline.Again(1), -1);
  EXPECT_GT(timeline.Again(2), timeline.Backward(5));
  EXPECT_GT(timeline.Again(3), timeline.Again(2));
  EXPECT_GT(timeline.Backward(4), timeline.Again(3));
  EXPECT_EQ(timeline.end(), 14);  // 6 layers both ways, 2 again
}

TEST(Timeline, WhatBackwardDoesNotReadIsNotMadeAgain) {
  const auto plan = PlanText(
      kInput + SmallConv("a", "x") +
      Simple("Pooling", "b", "a", "b", "pooling_param { pool: AVE kernel_size: 2 } " + kAgain) +
      Loss("b"));
  EXPECT_EQ(RunsBefore(*plan, "loss"), "");
  EXPECT_EQ(RunsBefore(*plan, "b"), "");
}

TEST(Recompute, GoesThroughViewsAndSplits) {
  const std::string text =
      kInput + SmallConv("a", "x") + Simple("TanH", "b", "a", "b", kAgain) +
      Simple("Reshape", "r", "b", "r",
             "reshape_param { shape { dim: 0 dim: 4 dim: 4 dim: -1 } } " + kAgain) +
      SmallConv("c", "r") + SmallConv("d", "r") +
      "layer { name: 's' type: 'Eltwise' bottom: 'c' bottom: 'd' top: 's' }" + Loss("s");
  const auto plan = PlanText(text);
  EXPECT_EQ(RunsBefore(*plan, "d"), "b ");
  EXPECT_EQ(RunsBefore(*plan, "c"), "");
  const PlannedValue& b = plan->values[static_cast<size_t>(plan->FindValue("b"))];
  const PlannedValue& r = plan->values[static_cast<size_t>(plan->FindValue("r"))];
  EXPECT_GE(b.again.offset, 0);
  EXPECT_EQ(b.again.offset, r.again.offset);
}

// The chain is computed again in one buffer if it is in place the first time.
TEST(Recompute, WorksInPlaceAgain) {
  const std::string text = kInput + SmallConv("a", "x", kAgain) +
                           Simple("Scale", "b", "a", "b", kAgain) +
                           Simple("TanH", "c", "b", "b", kAgain) + SmallConv("d", "b") + Loss("d");
  const auto plan = PlanText(text);
  const int last = plan->FindValue("b");
  const int first = plan->FindFirstValue("b");
  EXPECT_EQ(RunsBefore(*plan, "d"), "a b c ");
  EXPECT_EQ(plan->values[static_cast<size_t>(last)].again.offset,
            plan->values[static_cast<size_t>(first)].again.offset);
}

TEST(Recompute, AFusedReluIsNotKeptOnlyWhereBothAreNot) {
  const auto plan_of = [](const std::string& conv, const std::string& relu) {
    return PlanText(kInput + SmallConv("a", "x", conv) + Simple("ReLU", "r", "a", "a", relu) +
                    SmallConv("b", "a") + Loss("b"));
  };
  EXPECT_FALSE(LayerOf(*plan_of(kAgain, ""), "a").recompute);
  EXPECT_FALSE(LayerOf(*plan_of("", kAgain), "a").recompute);
  EXPECT_TRUE(LayerOf(*plan_of(kAgain, kAgain), "a").recompute);
  EXPECT_EQ(RunsBefore(*plan_of(kAgain, kAgain), "b"), "a ");
}

TEST(Recompute, OnlyWithABackwardPassAndSharedMemory) {
  const std::string text = kInput + SmallConv("a", "x") + Simple("TanH", "b", "a", "b", kAgain) +
                           SmallConv("c", "b") + Loss("c");
  EXPECT_TRUE(LayerOf(*PlanText(text), "b").recompute);
  EXPECT_FALSE(LayerOf(*PlanText(text, TRAIN, {.backward = false}), "b").recompute);
  EXPECT_FALSE(LayerOf(*PlanText(text, TRAIN, {.optimize = false}), "b").recompute);
}

TEST(Recompute, LayersThatCannotRunAgainAreErrorsThatNameThem) {
  const std::string data =
      "layer { name: 'dummy' type: 'DummyData' top: 'x'\n recompute: true\n"
      "dummy_data_param { shape { dim: 1 dim: 1 } } }";
  EXPECT_NE(PlanError(data).find("net.prototxt:2"), std::string::npos) << PlanError(data);
  EXPECT_NE(PlanError(data).find("layer \"dummy\""), std::string::npos) << PlanError(data);
  EXPECT_NE(PlanError(data).find("it reads data"), std::string::npos) << PlanError(data);
  const std::string silent =
      PlanError(kInput + "layer { name: 's' type: 'Silence' bottom: 'x' " + kAgain + "}");
  EXPECT_NE(silent.find("it has no outputs"), std::string::npos) << silent;
  const std::string dynamic =
      PlanError(kInput +
                "layer { name: 'sel' type: 'Input' top: 'sel' input_param { shape { dim: 2 } } }"
                "layer { name: 'f' type: 'Filter' bottom: 'x' bottom: 'sel' top: 'f' " +
                kAgain + "}");
  EXPECT_NE(dynamic.find("while it runs"), std::string::npos) << dynamic;
  const std::string state = PlanError(
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 dim: 4 } } }"
      "layer { name: 'cont' type: 'Input' top: 'cont' input_param { shape { dim: 2 dim: 3 } } }"
      "layer { name: 'lstm' type: 'LSTM' bottom: 'x' bottom: 'cont' top: 'y' "
      "recurrent_param { num_output: 3 } " +
      kAgain + "}");
  EXPECT_NE(state.find("layer \"lstm\""), std::string::npos) << state;
  EXPECT_NE(state.find("a state"), std::string::npos) << state;
  const std::string shared =
      "param { name: 'm' lr_mult: 0 } param { name: 'v' lr_mult: 0 } "
      "param { name: 'f' lr_mult: 0 } ";
  const std::string statistics = PlanError(kInput + Simple("BatchNorm", "n1", "x", "n1", shared) +
                                           Simple("BatchNorm", "n2", "n1", "n2", shared + kAgain));
  EXPECT_NE(statistics.find("layer \"n2\""), std::string::npos) << statistics;
  EXPECT_NE(statistics.find("shares statistics"), std::string::npos) << statistics;
  // A bias that is another layer's running mean would be read after that layer has updated it.
  const std::string mean = "param { name: 'm' lr_mult: 0 } ";
  const std::string bias = PlanError(kInput + Simple("Bias", "b", "x", "b", mean + kAgain) +
                                     Simple("BatchNorm", "n", "b", "n", shared));
  EXPECT_NE(bias.find("layer \"b\""), std::string::npos) << bias;
  EXPECT_NE(bias.find("shares statistics"), std::string::npos) << bias;
}

// Returns true if two slots of the arena overlap.
bool Overlap(const ArenaSlot& a, const ArenaSlot& b) {
  return a.offset >= 0 && b.offset >= 0 && a.offset < b.offset + b.bytes &&
         b.offset < a.offset + a.bytes;
}

// Activations die one by one in the backward pass, the last first; gradients take their places.
TEST(PlaceMemory, GradientsOfActivationsReuseDeadActivations) {
  std::string text = kInput;
  std::string bottom = "x";
  for (int i = 0; i < 8; ++i) {
    const std::string name = "c" + std::to_string(i);
    text += SmallConv(name, bottom) + Simple("TanH", name + "t", name, name);
    bottom = name;
  }
  Plan plan = *PlanText(text + Loss(bottom));
  int reused = 0;
  for (const PlannedValue& gradient : plan.values) {
    for (const PlannedValue& value : plan.values) {
      if (Overlap(gradient.gradient, value.data)) {
        ++reused;
        break;
      }
    }
  }
  EXPECT_GE(reused, 8);
  int64_t all = 0;
  for (const PlannedValue& value : plan.values) all = std::max(all, value.data.bytes);
  // All 8 activations and the input, and not even two gradients more.
  EXPECT_LE(plan.arena_bytes, 11 * all);
  EXPECT_LT(plan.arena_bytes, plan.unshared_bytes * 7 / 10);
  EXPECT_EQ(plan.arena_bytes, PlaceBuffers(FindLifetimes(&plan)).arena_bytes);
}

}  // namespace
}  // namespace crema
