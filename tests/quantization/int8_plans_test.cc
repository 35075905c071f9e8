// Plans of nets with int8 ranges in their text.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/memory_format.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/prototxt.h"
#include "plan/plan.h"
#include "quantization/quantize_fixture.h"
#include "support/net.h"

namespace crema {
namespace {

using test::FillInput;
using test::PlanOf;
using test::RelativeError;
using test::TestState;

class Int8Plans : public test::QuantizeTest {
 protected:
  std::string Problem(const NetParameter& net, PlanOptions options = {.backward = false}) {
    std::vector<crema::Problem> warnings;
    try {
      MakePlan(net, {}, TestState(), test::TestRegistry(), options, &warnings);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }
};

TEST_F(Int8Plans, AreRefusedForTrainingAndWithoutRanges) {
  const NetParameter net = Run().net;
  EXPECT_NE(Problem(net, {.backward = true}).find("trained already"), std::string::npos);
  NetParameter bare = net_;
  bare.set_precision(INT8);
  EXPECT_NE(Problem(bare).find("calibration"), std::string::npos);
  bare.clear_precision();
  bare.mutable_layer(1)->set_precision(INT8);
  EXPECT_NE(Problem(bare).find("calibration"), std::string::npos);
}

TEST_F(Int8Plans, AreRefusedWithRangesThatContradictEachOther) {
  NetParameter net = Run().net;
  LayerParameter* conv = net.mutable_layer(1);
  conv->mutable_int8()->mutable_bottom(0)->set_max(123);
  EXPECT_NE(Problem(net).find("another range"), std::string::npos) << Problem(net);
  net.mutable_layer(0)->clear_int8();
  EXPECT_NE(Problem(net).find("no range"), std::string::npos) << Problem(net);
  conv->mutable_int8()->mutable_top(0)->set_max(-1);
  EXPECT_NE(Problem(net).find("above 0"), std::string::npos) << Problem(net);
}

// Only some layers may have ranges.
TEST_F(Int8Plans, TakeTheRangeOfAReluWhoseLeaderHasNone) {
  NetParameter net = Run().net;
  for (LayerParameter& layer : *net.mutable_layer()) {
    if (layer.name() == "b") layer.clear_int8();
    if (layer.name() == "rb") layer.mutable_int8()->clear_bottom();
  }
  EXPECT_EQ(Problem(net), "");
  EXPECT_LT(RelativeError(OutputOf(net_, 2), OutputOf(net, 2)), 0.05);
}

TEST_F(Int8Plans, ASplitWithARangeOfItsOwnPassesNoBytes) {
  NetParameter net = ParseNet(R"(precision: INT8
layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 64 dim: 32 dim: 32 } } }
layer { name: 'a' type: 'Convolution' bottom: 'x' top: 'a' convolution_param { num_output: 64
  kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }
layer { name: 's' type: 'Split' bottom: 'a' top: 's' top: 't' }
layer { name: 'b' type: 'Convolution' bottom: 's' top: 'b' convolution_param { num_output: 64
  kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }
layer { name: 'd' type: 'Convolution' bottom: 't' top: 'd' convolution_param { num_output: 64
  kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }
layer { name: 'sum' type: 'Eltwise' bottom: 'b' bottom: 'd' top: 'ip' })",
                              "net.prototxt")
                         .net;
  net_ = net;
  net_.clear_precision();
  weights_ = Weights::Make(*PlanOf(net_), 3);
  net = Run().net;
  for (LayerParameter& layer : *net.mutable_layer()) {
    Int8Ranges* ranges = layer.mutable_int8();
    if (layer.name() == "s") ranges->mutable_top(0)->set_max(2 * ranges->top(0).max());
    if (layer.name() == "b") ranges->mutable_bottom(0)->set_max(2 * ranges->bottom(0).max());
  }
  EXPECT_LT(RelativeError(OutputOf(net_, 2), OutputOf(net, 2)), 0.05);
}

std::string ImplementationsOf(const Plan& plan) {
  std::string implementations;
  for (const PlannedLayer& layer : plan.layers) {
    implementations +=
        StrCat(layer.name(), ": ",
               layer.implementation == nullptr ? "-" : layer.implementation->name, "\n");
  }
  return implementations;
}

// Estimates of implementations scale with the threads, the overhead of a reorder does not.
TEST_F(Int8Plans, DoNotDependOnThreadsWhereTheyAreDeterministic) {
  int others = 0;
  const NetParameter net = Run().net;
  for (const int side : {4, 8, 16, 32}) {
    NetParameter small = net;
    InputParameter* input = small.mutable_layer(0)->mutable_input_param();
    for (const int axis : {2, 3}) input->mutable_shape(0)->set_dim(axis, side);
    const auto implementations = [&](int threads, bool deterministic) {
      return ImplementationsOf(
          *PlanOf(small, {.threads = threads, .deterministic = deterministic}));
    };
    for (const int threads : {2, 8, 64}) {
      EXPECT_EQ(implementations(threads, true), implementations(1, true))
          << side << ", " << threads;
      if (implementations(threads, false) != implementations(1, false)) ++others;
    }
  }
  if (HasImplementations()) {
    EXPECT_GT(others, 0) << "this net does not show it";
  }
}

TEST_F(Int8Plans, PixelsPickedForMovedStridesStayBytes) {
  for (LayerParameter& layer : *net_.mutable_layer()) {
    if (layer.name() != "e" && layer.name() != "f") continue;
    ConvolutionParameter* conv = layer.mutable_convolution_param();
    conv->set_kernel_size(0, 1);
    conv->clear_pad();
    conv->add_stride(2);
  }
  weights_ = Weights::Make(*PlanOf(net_), 3);
  const NetParameter net = Run().net;
  const auto plan = PlanOf(net);
  const auto pick = std::ranges::find(plan->layers, "p_for_sum", &PlannedLayer::name);
  ASSERT_NE(pick, plan->layers.end());
  if (HasImplementations()) {
    EXPECT_EQ(pick->implementation->name, "int8");
  }
  EXPECT_LT(RelativeError(OutputOf(net_, 2), OutputOf(net, 2)), 0.05);
}

TEST_F(Int8Plans, ReshapedAndUnoptimizedPlansGiveTheSameResults) {
  const NetParameter net = Run().net;
  const auto plan = PlanOf(net, {.threads = 2});
  Session session(plan, weights_, ExecContext(2, 1));
  session.FixWeights();
  // One image of two: its result does not depend on the other.
  FillInput(&session, "x", 77);
  session.Forward();
  const std::vector<float> both = test::ValuesOf(session.Data("ip"));
  session.Reshape("x", {1, 3, 32, 32});
  session.Forward();
  const std::vector<float> one = test::ValuesOf(session.Data("ip"));
  EXPECT_EQ(one, std::vector<float>(both.begin(), both.begin() + 80));
  // Without layout optimization only inner products use int8.
  const auto plain = PlanOf(net, {.optimize = false});
  EXPECT_TRUE(std::ranges::all_of(
      plain->values, [](const PlannedValue& v) { return v.spec.format == MemoryFormat{}; }));
}

}  // namespace
}  // namespace crema
