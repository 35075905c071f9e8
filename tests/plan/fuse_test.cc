// A ReLU after a convolution or a product is computed by the implementation of that layer.
#include "plan/passes/fuse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "gpu/session_values.h"
#include "plan/plan_parts.h"
#include "plan/precision.h"
#include "support/gpu.h"
#include "support/net.h"
#include "support/random_nets.h"

namespace crema {
namespace {

using test::kGpu;
using test::LayerOf;
using test::PlanText;

// Layers "l" and "r" on images.
struct Pair {
  std::string type;
  int channels;
  std::string fields;
  std::string relu = "";
};

// The net around them: "l" reads `bottom`, the loss `top`.
struct Around {
  std::string before = "";
  std::string bottom = "x";
  std::string of_both = "";  // fields of "l" and "r"
  std::string after = "";
  std::string top = "r";
};

std::string NetOf(const Pair& pair, bool backward, const Around& around = {}) {
  return StrCat(
      "force_backward: true layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 "
      "dim: ",
      pair.channels, " dim: 9 dim: 8 } } } ", around.before, "layer { name: 'l' type: '", pair.type,
      "' bottom: '", around.bottom, "' top: 'l' ", pair.fields, around.of_both,
      "} layer { name: 'r' type: 'ReLU' bottom: 'l' top: 'r' relu_param { ", pair.relu, " } ",
      around.of_both, "} ", around.after,
      backward ? StrCat("layer { name: 's' type: 'Reduction' bottom: '", around.top,
                        "' top: 's' loss_weight: 1 reduction_param { operation: SUMSQ } }")
               : "");
}

std::string XavierConv(const std::string& fields) {
  return "convolution_param { kernel_size: 3 weight_filler { type: 'xavier' } bias_filler { type: "
         "'uniform' min: -1 max: 1 } " +
         fields + " } ";
}

const char* const kProduct =
    "inner_product_param { num_output: 19 weight_filler { type: 'xavier' } } ";

std::vector<Pair> Pairs() {
  const std::string leaky = "negative_slope: 0.25";
  return {{"Convolution", 32, XavierConv("num_output: 48 pad: 1")},
          {"Convolution", 64, XavierConv("num_output: 64 pad: 1"), leaky},
          {"Convolution", 16, XavierConv("num_output: 24"), leaky},  // does not fill blocks
          {"Convolution", 3, XavierConv("num_output: 16 stride: 2 bias_term: false")},
          {"Convolution", 3,
           XavierConv("num_output: 5 relu: true negative_slope: 0.5") +
               "fused_relu_param { negative_slope: 0.5 }",
           leaky},
          {"ConvolutionDepthwise", 32, XavierConv("num_output: 32 pad: 1")},
          {"ConvolutionDepthwise", 6, XavierConv("num_output: 12"), leaky},
          {"Deconvolution", 16, XavierConv("num_output: 16 stride: 2"), leaky},
          {"Deconvolution", 5, XavierConv("num_output: 4")},
          {"InnerProduct", 16, kProduct, leaky},
          {"InnerProduct", 5,
           "inner_product_param { num_output: 19 relu: true negative_slope: 0.5 weight_filler { "
           "type: 'xavier' } } "},
          {"InnerProduct", 3, std::string(kProduct) + "fused_relu_param { negative_slope: 0.5 }",
           leaky}};
}

std::vector<std::vector<float>> NumbersOf(const std::shared_ptr<const Plan>& plan) {
  const bool gpu = plan->options.device.type == DeviceType::kCuda;
  Session session(plan, Weights::Make(*plan, 3),
                  gpu ? test::GpuContext(3) : ExecContext(plan->options.threads, 3));
  test::FillInput(&session, "x", 1);
  session.Forward();
  std::vector<std::vector<float>> numbers = {
      test::HostValues(session, session.DataOf(plan->outputs[0]))};
  if (!plan->options.backward) return numbers;
  test::AppendGradients(&session, &numbers);
  numbers.push_back(test::HostValues(session, session.Gradient("x")));
  return numbers;
}

// Compares the net with each implementation of layer "l", of that type, on the device of `options`
// with its plain plan on the CPU. Calls check(plan) for each. Returns how many implementations can
// compute the layer.
template <typename Check>
int CompareImplementations(const std::string& type, const std::string& net, PlanOptions options,
                           const Check& check, double tolerance = 1e-4) {
  const Phase phase = options.backward ? TRAIN : TEST;
  const auto plain =
      NumbersOf(PlanText(net, phase, {.backward = options.backward, .optimize = false}));
  int planned = 0;
  for (const ImplementationPtr& implementation : test::TestRegistry().Find(type)->implementations) {
    if (implementation->device != options.device.type) continue;
    SCOPED_TRACE(StrCat(implementation->name, "\n", net));
    options.pinned = {{"l", implementation->name}};
    std::shared_ptr<const Plan> plan;
    try {
      plan = PlanText(net, phase, options);
    } catch (const Error&) {
      continue;  // it cannot compute this layer
    }
    ++planned;
    check(*plan);
    test::ExpectNear(plain, NumbersOf(plan), tolerance, net);
  }
  return planned;
}

// Expects that "r" is fused into "l".
void ExpectFused(const Plan& plan) { EXPECT_EQ(LayerOf(plan, "l").fusion.followers.size(), 1U); }

TEST(Fuse, EachImplementationComputesAReluToo) {
  for (const Pair& pair : Pairs()) {
    for (const bool backward : {true, false}) {
      // Native, at least.
      EXPECT_GT(CompareImplementations(pair.type, NetOf(pair, backward),
                                       {.threads = 2, .backward = backward}, ExpectFused),
                0);
    }
  }
}

TEST(Fuse, EachImplementationOfGpusDoesInTrainingToo) {
  int in_halves = 0;
  for (const Pair& pair : Pairs()) {
    const std::string net = NetOf(pair, true);
    EXPECT_GT(CompareImplementations(pair.type, net, {.device = kGpu}, ExpectFused), 0);
    const PlanOptions halves{.device = kGpu, .precision = BF16};
    in_halves += CompareImplementations(pair.type, net, halves, ExpectFused, 0.03);
  }
  EXPECT_GT(in_halves, 0);
}

// Backward takes the mask from an output that was computed again.
TEST(Fuse, AReluOfALayerThatRunsAgainIsRight) {
  for (const Pair& pair : Pairs()) {
    const std::string net = NetOf(pair, true, {.of_both = "recompute: true "});
    const auto runs_again = [](const Plan& plan) {
      ExpectFused(plan);
      EXPECT_TRUE(LayerOf(plan, "l").recompute);
      // For the loss, or for its own backward if the loss reads a reordered copy.
      EXPECT_TRUE(std::ranges::any_of(
          plan.layers, [](const PlannedLayer& layer) { return !layer.runs_again.empty(); }));
    };
    for (const Device& device : {Device{}, kGpu}) {
      EXPECT_GT(CompareImplementations(pair.type, net, {.device = device}, runs_again), 0);
    }
  }
}

// Views of what the layer reads, and of what the ReLU writes.
TEST(Fuse, AReluBetweenAliasesIsRight) {
  const Around around = {
      .before =
          "layer { name: 't' type: 'TanH' bottom: 'x' top: 't' } layer { name: 'v' type: "
          "'Reshape' bottom: 't' top: 'v' reshape_param { shape { dim: 0 dim: 0 dim: 8 dim: "
          "9 } } } ",
      .bottom = "v",
      .after =
          "layer { name: 'f' type: 'Flatten' bottom: 'r' top: 'f' } layer { name: 'p' type: "
          "'Power' bottom: 'f' top: 'p' power_param { power: 2 } } layer { name: 'q' type: "
          "'Reduction' bottom: 'r' top: 'q' loss_weight: 1 } ",
      .top = "p"};
  for (const Pair& pair : Pairs()) {
    for (const std::string again : {"", "recompute: true "}) {
      Around each = around;
      each.of_both = again;
      const std::string net = NetOf(pair, true, each);
      for (const Device& device : {Device{}, kGpu}) {
        EXPECT_GT(CompareImplementations(pair.type, net, {.device = device}, ExpectFused), 0);
      }
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
      EXPECT_GT(CompareImplementations(pair.type, net, {.backward = false}, [](const Plan&) {}), 0);
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
      // A view between them.
      product +
          "layer { name: 'v' type: 'Reshape' bottom: 'l' top: 'v' reshape_param { shape { dim: 0 "
          "dim: -1 } } } layer { name: 'r' type: 'ReLU' bottom: 'v' top: 'r' }",
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
