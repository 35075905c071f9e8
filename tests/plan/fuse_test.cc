// A ReLU after a convolution or a product is computed by the implementation of that layer.
#include "plan/passes/fuse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "plan/precision.h"
#include "support/net.h"
#include "support/random_nets.h"

namespace crema {
namespace {

using test::PlanText;

// Layers "l" and "r" on images.
struct Pair {
  std::string type;
  int channels;
  std::string fields;
  std::string relu = "";
};

std::string NetOf(const Pair& pair, bool backward) {
  return StrCat(
      "force_backward: true layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 "
      "dim: ",
      pair.channels, " dim: 9 dim: 8 } } } layer { name: 'l' type: '", pair.type,
      "' bottom: 'x' top: 'l' ", pair.fields,
      "} layer { name: 'r' type: 'ReLU' bottom: 'l' top: 'r' relu_param { ", pair.relu, " } } ",
      backward ? "layer { name: 's' type: 'Reduction' bottom: 'r' top: 's' loss_weight: 1 "
                 "reduction_param { operation: SUMSQ } }"
               : "");
}

std::string Conv(const std::string& fields) {
  return "convolution_param { kernel_size: 3 weight_filler { type: 'xavier' } bias_filler { type: "
         "'uniform' min: -1 max: 1 } " +
         fields + " } ";
}

const char* const kProduct =
    "inner_product_param { num_output: 19 weight_filler { type: 'xavier' } } ";

std::vector<Pair> Pairs() {
  const std::string leaky = "negative_slope: 0.25";
  return {{"Convolution", 32, Conv("num_output: 48 pad: 1")},
          {"Convolution", 64, Conv("num_output: 64 pad: 1"), leaky},
          {"Convolution", 16, Conv("num_output: 24"), leaky},  // does not fill blocks
          {"Convolution", 3, Conv("num_output: 16 stride: 2 bias_term: false")},
          {"Convolution", 3,
           Conv("num_output: 5 relu: true negative_slope: 0.5") +
               "fused_relu_param { negative_slope: 0.5 }",
           leaky},
          {"ConvolutionDepthwise", 32, Conv("num_output: 32 pad: 1")},
          {"ConvolutionDepthwise", 6, Conv("num_output: 12"), leaky},
          {"Deconvolution", 16, Conv("num_output: 16 stride: 2"), leaky},
          {"Deconvolution", 5, Conv("num_output: 4")},
          {"InnerProduct", 16, kProduct, leaky},
          {"InnerProduct", 3, std::string(kProduct) + "fused_relu_param { negative_slope: 0.5 }",
           leaky}};
}

const PlannedLayer& LayerOf(const Plan& plan, const std::string& name) {
  return *std::ranges::find_if(plan.layers,
                               [&](const PlannedLayer& layer) { return layer.name() == name; });
}

std::vector<std::vector<float>> NumbersOf(const std::shared_ptr<const Plan>& plan) {
  Session session(plan, Weights::Make(*plan, 3), ExecContext(plan->options.threads, 3));
  test::FillInput(&session, "x", 1);
  session.Forward();
  std::vector<std::vector<float>> numbers = {test::ValuesOf(session.DataOf(plan->outputs[0]))};
  if (!plan->options.backward) return numbers;
  session.ZeroParameterGradients();
  session.Backward();
  numbers.push_back(test::ValuesOf(session.Gradient("x")));
  for (size_t s = 0; s < plan->parameters.size(); ++s) {
    numbers.push_back(test::ValuesOf(session.ParameterGradient(s)));
  }
  return numbers;
}

// Compares the net with each CPU implementation of layer "l", of that type, with its plain plan.
// Calls check(plan) for each. Returns how many implementations can compute the layer.
template <typename Check>
int CompareImplementations(const std::string& type, const std::string& net, bool backward,
                           int threads, const Check& check) {
  const Phase phase = backward ? TRAIN : TEST;
  const auto plain = NumbersOf(PlanText(net, phase, {.backward = backward, .optimize = false}));
  int planned = 0;
  for (const ImplementationPtr& implementation : test::TestRegistry().Find(type)->implementations) {
    if (implementation->device != DeviceType::kCpu) continue;
    SCOPED_TRACE(StrCat(implementation->name, "\n", net));
    std::shared_ptr<const Plan> plan;
    try {
      plan = PlanText(
          net, phase,
          {.threads = threads, .backward = backward, .pinned = {{"l", implementation->name}}});
    } catch (const Error&) {
      continue;  // it cannot compute this layer
    }
    ++planned;
    check(*plan);
    test::ExpectNear(plain, NumbersOf(plan), 1e-4, net);
  }
  return planned;
}

TEST(Fuse, EachImplementationComputesAReluToo) {
  for (const Pair& pair : Pairs()) {
    for (const bool backward : {true, false}) {
      const auto fuses = [](const Plan& plan) {
        EXPECT_EQ(LayerOf(plan, "l").fusion.followers.size(), 1U);
      };
      // Native, at least.
      EXPECT_GT(CompareImplementations(pair.type, NetOf(pair, backward), backward, 2, fuses), 0);
    }
  }
}

// The slopes of fused ReLUs multiply only while the sign stays.
TEST(Fuse, ReluAfterReluIsRight) {
  for (const Pair& pair : Pairs()) {
    for (const auto& [first, second] :
         {std::pair{"-1", "0"}, {"-0.5", "0.1"}, {"0.5", "-0.25"}, {"0.5", "0.25"}}) {
      Pair leaky = pair;
      leaky.relu = StrCat("negative_slope: ", first);
      const std::string net =
          StrCat(NetOf(leaky, false), "layer { name: 'q' type: 'ReLU' bottom: 'r' top: 'q' ",
                 "relu_param { negative_slope: ", second, " } }");
      EXPECT_GT(CompareImplementations(pair.type, net, false, 1, [](const Plan&) {}), 0);
    }
  }
}

TEST(Fuse, NativeImplementationsComputeAReluInDoublePrecisionToo) {
  for (const Pair& pair : Pairs()) {
    const auto plan = PlanText(NetOf(pair, true), TRAIN, {.dtype = DType::kF64});
    EXPECT_EQ(LayerOf(*plan, "l").fusion.followers.size(), 1U) << pair.type;
  }
}

TEST(Fuse, LeavesOthersAlone) {
  const std::string product =
      StrCat("layer { name: 'l' type: 'InnerProduct' bottom: 'x' top: 'l' ", kProduct, "}\n");
  const std::string relu = "layer { name: 'r' type: 'ReLU' bottom: 'l' top: 'r' }\n";
  const std::vector<std::string> untouched = {
      // Another layer reads the value before the ReLU.
      product + relu + "layer { name: 't' type: 'TanH' bottom: 'l' top: 't' }",
      // A negative slope: the sign of the output does not tell the sign of the input.
      product +
          "layer { name: 'r' type: 'ReLU' bottom: 'l' top: 'r' relu_param { negative_slope: -1 } }",
      // Not a layer that fuses it.
      "layer { name: 'l' type: 'TanH' bottom: 'x' top: 'l' }\n" + relu};
  for (const std::string& rest : untouched) {
    const auto plan = PlanText(
        "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }\n" +
        rest);
    EXPECT_EQ(LayerOf(*plan, "r").fusion.leader, -1) << rest;
  }
}

TEST(Fuse, AReluWithoutAPrecisionHasThatOfTheLayerThatFusesIt) {
  const std::string net =
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } } "
      "layer { name: 'l' type: 'InnerProduct' bottom: 'x' top: 'l' precision: BF16 " +
      std::string(kProduct) + "} layer { name: 'r' type: 'ReLU' bottom: 'l' top: 'r' ";
  for (const auto& [fields, wanted] :
       {std::pair{"}", BF16},
        {"precision: FP32 }", FP32},
        {"relu_param { negative_slope: -1 } }", FP16},
        {"} layer { name: 't' type: 'TanH' bottom: 'l' top: 't' }", FP16}}) {
    const NetFile file = ParseNet(net + fields, "net.prototxt");
    NetState state;
    state.set_phase(TEST);
    std::vector<Problem> warnings;
    Graph graph = BuildGraph(file.net, file.source, state, test::TestRegistry(), &warnings);
    InheritPrecisions({}, &graph);
    const LayerParameter& relu = graph.nodes[2].layer->param();
    EXPECT_EQ(relu.has_precision(), wanted != FP16) << fields;
    EXPECT_EQ(relu.precision(), wanted == FP16 ? FP32 : wanted);
  }
}

}  // namespace
}  // namespace crema
