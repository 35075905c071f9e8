// Implementations by oneDNN compute an element-wise activation after a convolution or a product.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/bfloat16.h"
#include "core/memory_format.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "plan/passes/fuse.h"
#include "plan/plan_parts.h"
#include "plan/precision.h"
#include "support/net.h"
#include "support/random_nets.h"

namespace crema {
namespace {

using test::LayerOf;
using test::PlanText;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr double kTolerance = 1e-4;  // of Winograd's algorithm

struct Activation {
  std::string type;
  std::string fields = "";
  bool products = true;    // inner products fuse it too
  double error = 4.5e-7;   // share of max(1, |y|)
  bool minus_inf = false;  // f(-inf) is a number
};

// With parameters that are not the defaults, if there are any.
std::vector<Activation> Activations() {
  return {{"HardSwish"},
          {"HSwish"},
          {"GELU"},
          {"GELU", "gelu_param { approximation: TANH }"},
          {"TanH", "", true, 4.5e-7, true},
          {"ELU", "elu_param { alpha: 0.3 }", true, 4.5e-7, true},
          {"Mish", "", true, 1.1e-6},
          {"ReLU6", "", false, 0},
          {"Clip", "clip_param { min: -0.75 max: 1.5 }", false, 0, true}};
}

// Activations that no implementation fuses, each because of its parameters.
std::vector<Activation> Refused() {
  return {{"HardSwish", "hard_sigmoid_param { alpha: 0.25 }"},
          {"HardSwish", "hard_sigmoid_param { beta: 0.25 }"},
          {"ELU", "elu_param { lambda: 1.05 }"},
          {"ReLU6", "relu6_param { negative_slope: 0.1 }"},
          {"HardSigmoid"},
          {"SiLU"},
          {"Sigmoid"},
          {"BNLL"}};
}

std::string LayerText(const std::string& name, const std::string& type, const std::string& bottom,
                      const std::string& fields) {
  return StrCat("layer { name: '", name, "' type: '", type, "' bottom: '", bottom, "' top: '", name,
                "' ", fields, " }\n");
}

std::string InputText(const std::string& name, const std::string& dims) {
  return StrCat("layer { name: '", name, "' type: 'Input' top: '", name, "' input_param { shape { ",
                dims, " } } }\n");
}

// A layer "l" with inputs in -1..1 and sums in about -10..10.
struct Leader {
  std::string type;
  std::string dims;
  std::string fields;
};

std::string GaussianConv(const std::string& fields) {
  return "convolution_param { weight_filler { type: 'gaussian' std: 0.4 } bias_filler { type: "
         "'uniform' min: -1 max: 1 } " +
         fields + " } ";
}

std::vector<Leader> Convolutions() {
  const std::string image = " dim: 9 dim: 8";
  return {{"Convolution", "dim: 2 dim: 32" + image,
           GaussianConv("num_output: 48 kernel_size: 3 pad: 1")},
          {"Convolution", "dim: 2 dim: 32" + image, GaussianConv("num_output: 64 kernel_size: 1")},
          {"Convolution", "dim: 2 dim: 16" + image, GaussianConv("num_output: 24 kernel_size: 3")},
          {"Convolution", "dim: 2 dim: 3" + image,
           GaussianConv("num_output: 16 kernel_size: 3 stride: 2 bias_term: false")},
          {"Convolution", "dim: 2 dim: 32" + image,
           GaussianConv("num_output: 32 group: 32 kernel_size: 3 pad: 1")}};
}

std::vector<Leader> Products() {
  const std::string fields =
      "inner_product_param { num_output: 640 weight_filler { type: 'gaussian' std: 0.4 } } ";
  return {{"InnerProduct", "dim: 5 dim: 128", fields},
          {"InnerProduct", "dim: 3 dim: 4 dim: 50",
           "inner_product_param { num_output: 33 axis: 2 weight_filler { type: 'gaussian' std: 0.4 "
           "} } "}};
}

std::string NetOf(const Leader& leader, const Activation& activation) {
  return StrCat(InputText("x", leader.dims), LayerText("l", leader.type, "x", leader.fields),
                LayerText("r", activation.type, "l", activation.fields));
}

bool IsFused(const Plan& plan, const std::string& name = "r") {
  return LayerOf(plan, name).fusion.leader >= 0;
}

std::vector<float> OutputOf(const std::shared_ptr<const Plan>& plan,
                            const std::vector<float>& x = {}) {
  Session session(plan, Weights::Make(*plan, 3), ExecContext(plan->options.threads, 3));
  for (const PlannedLayer& layer : plan->layers) {
    if (layer.layer->param().type() == "Input") test::FillInput(&session, layer.name(), 1);
  }
  if (!x.empty()) std::ranges::copy(x, session.MutableData("x").data<float>());
  session.Forward();
  return test::ValuesOf(session.DataOf(plan->outputs[0]));
}

// Calls check(plan) for the net with each implementation of layer "l" for the CPU.
template <typename Check>
void ForImplementations(const Leader& leader, const std::string& net, PlanOptions options,
                        const Check& check) {
  options.backward = false;
  options.threads = 2;
  for (const ImplementationPtr& implementation :
       test::TestRegistry().Find(leader.type)->implementations) {
    if (implementation->device != DeviceType::kCpu) continue;
    const bool bf16 = implementation->name.find("bf16") != std::string::npos;
    if (options.precision == BF16 && !bf16) continue;
    options.pinned = {{"l", implementation->name}};
    SCOPED_TRACE(StrCat(implementation->name, "\n", net));
    std::shared_ptr<const Plan> plan;
    try {
      plan = PlanText(net, TEST, options);
    } catch (const Error&) {
      continue;  // it cannot compute this layer
    }
    check(plan, implementation->name);
  }
}

class FuseActivation : public testing::Test {
 protected:
  void SetUp() override {
    const auto& all = test::TestRegistry().Find("InnerProduct")->implementations;
    if (ChannelBlock() == 0 ||
        std::ranges::find(all, "onednn", &Implementation::name) == all.end()) {
      GTEST_SKIP() << "needs AVX2 and oneDNN";
    }
  }
};

// Compares all implementations with the plain plan. Returns how many of them fuse the activation.
int Compare(const Leader& leader, const Activation& activation, Precision precision,
            double tolerance) {
  const std::string net = NetOf(leader, activation);
  const std::vector<float> plain =
      OutputOf(PlanText(net, TEST, {.backward = false, .optimize = false}));
  const bool fusable = leader.type == "Convolution" || activation.products;
  int fused = 0;
  ForImplementations(leader, net, {.precision = precision},
                     [&](const auto& plan, const std::string& name) {
                       EXPECT_EQ(IsFused(*plan), fusable && name.starts_with("onednn"));
                       fused += IsFused(*plan) ? 1 : 0;
                       test::ExpectNear({plain}, {OutputOf(plan)}, tolerance, net);
                     });
  return fused;
}

TEST_F(FuseActivation, ImplementationsByOneDnnComputeItToo) {
  for (const Activation& activation : Activations()) {
    for (const Leader& leader : Convolutions()) Compare(leader, activation, FP32, kTolerance);
    for (const Leader& leader : Products()) Compare(leader, activation, FP32, kTolerance);
  }
}

TEST_F(FuseActivation, OnBlobsOfBFloat16Too) {
  int fused = 0;
  for (const Activation& activation : Activations()) {
    for (const Leader& leader : Convolutions()) fused += Compare(leader, activation, BF16, 0.05);
    fused += Compare(Products()[0], activation, BF16, 0.05);
  }
  EXPECT_EQ(fused > 50, HasBFloat16());
}

TEST_F(FuseActivation, OthersAreNotFused) {
  for (const Activation& activation : Refused()) {
    for (const Leader& leader : {Convolutions()[0], Products()[0]}) {
      ForImplementations(
          leader, NetOf(leader, activation), {},
          [](const auto& plan, const std::string&) { EXPECT_FALSE(IsFused(*plan)); });
    }
  }
}

TEST_F(FuseActivation, SessionsMayGetFewerRows) {
  const std::string net = NetOf(Products()[0], {"GELU"});
  const auto plan = PlanText(net, TEST, {.backward = false});
  ASSERT_TRUE(IsFused(*plan));
  const auto plain = PlanText(net, TEST, {.backward = false, .optimize = false});
  for (const int64_t rows : {1, 0, 5}) {
    std::vector<std::vector<float>> y;
    for (const auto& each : {plain, plan}) {
      Session session(each, Weights::Make(*each, 3), ExecContext(each->options.threads, 3));
      session.Reshape("x", {rows, 128});
      if (rows > 0) test::FillInput(&session, "x", 1);
      session.Forward();
      y.push_back(test::ValuesOf(session.DataOf(each->outputs[0])));
    }
    EXPECT_EQ(y[0].size(), static_cast<size_t>(rows) * 640);
    test::ExpectNear({y[0]}, {y[1]}, kTolerance, net);
  }
}

// Compares one element at a time with the native layer, from -30 to 30, far away and near 0.
TEST_F(FuseActivation, IsAsExactAsDocumented) {
  std::vector<float> x = {kNaN, kInfinity, -kInfinity, 0, -0.0F, 1e-40F, -1e-40F, 3e38F, -3e38F};
  for (float far = 1e-30F; far < 1e30F; far *= 3) x.insert(x.end(), {far, -far});
  while (x.size() < 1 << 14) x.push_back(-30 + 60.0F * static_cast<float>(x.size()) / (1 << 14));
  const std::string one = " weight_filler { type: 'constant' value: 1 } bias_term: false } ";
  const Leader conv{"Convolution", "dim: 1 dim: 16 dim: 32 dim: 32",
                    "convolution_param { num_output: 16 group: 16 kernel_size: 1" + one};
  const Leader product{"InnerProduct", "dim: 16384 dim: 1",
                       "inner_product_param { num_output: 1" + one};
  for (const Activation& activation : Activations()) {
    for (const Leader& leader : {conv, product}) {
      if (leader.type == "InnerProduct" && !activation.products) continue;
      const std::string net = NetOf(leader, activation);
      const std::vector<float> plain =
          OutputOf(PlanText(net, TEST, {.backward = false, .optimize = false}), x);
      PlanOptions options{.threads = 2, .backward = false};
      options.pinned = {{"l", "onednn"}};
      const auto plan = PlanText(net, TEST, options);
      ASSERT_TRUE(IsFused(*plan)) << net;
      const std::vector<float> fused = OutputOf(plan, x);
      for (size_t i = 0; i < x.size(); ++i) {
        // oneDNN's clip turns NaN into a bound.
        if (i == 0 && !activation.products) continue;
        if (x[i] == -kInfinity && !activation.minus_inf) continue;
        ASSERT_EQ(std::isnan(fused[i]), std::isnan(plain[i])) << x[i] << net;
        if (std::isnan(plain[i]) || fused[i] == plain[i]) continue;
        ASSERT_NEAR(fused[i], plain[i], activation.error * std::max(1.0F, std::abs(plain[i])))
            << x[i] << net;
      }
    }
  }
}

// An affine layer, a sum and an activation after one convolution.
TEST_F(FuseActivation, ComesLast) {
  const Leader leader = Convolutions()[1];
  const std::string affine =
      LayerText("s0", "Bias", "l", "bias_param { filler { type: 'uniform' min: -1 max: 1 } }") +
      LayerText("s", "Scale", "s0",
                "scale_param { bias_term: true filler { type: 'uniform' min: 0.5 max: 2 } "
                "bias_filler { type: 'uniform' min: -1 max: 1 } }");
  const std::string before =
      StrCat(InputText("x", leader.dims), LayerText("y", leader.type, "x", leader.fields),
             LayerText("l", leader.type, "x", leader.fields), affine);
  const std::string sum = "bottom: 'y'";
  for (const Activation& activation : Activations()) {
    const std::string after = StrCat(before, LayerText("e", "Eltwise", "s", sum),
                                     LayerText("r", activation.type, "e", activation.fields));
    // A sum after the activation.
    const std::string too_late =
        StrCat(before, LayerText("r", activation.type, "s", activation.fields),
               LayerText("e", "Eltwise", "r", sum));
    for (const std::string& net : {after, too_late}) {
      const std::vector<float> plain =
          OutputOf(PlanText(net, TEST, {.backward = false, .optimize = false}));
      int fused = 0;
      ForImplementations(leader, net, {}, [&](const auto& plan, const std::string& name) {
        if (name.starts_with("onednn")) {
          EXPECT_TRUE(IsFused(*plan, "s0"));
          EXPECT_TRUE(IsFused(*plan, "r"));
          EXPECT_EQ(IsFused(*plan, "e"), net == after);
          ++fused;
        }
        test::ExpectNear({plain}, {OutputOf(plan)}, kTolerance, net);
      });
      EXPECT_GT(fused, 0);
    }
  }
}

TEST_F(FuseActivation, OnlyOneIsFused) {
  for (const Leader& leader : {Convolutions()[0], Products()[0]}) {
    for (const auto& [first, second] :
         {std::pair{"GELU", "TanH"}, {"TanH", "GELU"}, {"ReLU", "TanH"}, {"TanH", "ReLU"}}) {
      const std::string net = NetOf(leader, {first}) + LayerText("q", second, "r", "");
      const std::vector<float> plain =
          OutputOf(PlanText(net, TEST, {.backward = false, .optimize = false}));
      ForImplementations(leader, net, {}, [&](const auto& plan, const std::string&) {
        EXPECT_FALSE(IsFused(*plan, "q"));
        test::ExpectNear({plain}, {OutputOf(plan)}, kTolerance, net);
      });
    }
  }
}

TEST_F(FuseActivation, NotAfterTheReluOfTheLayerItself) {
  for (Leader leader : {Convolutions()[0], Products()[0]}) {
    leader.fields += "fused_relu_param { negative_slope: 0.5 }";
    const std::string net = NetOf(leader, {"GELU"});
    const std::vector<float> plain =
        OutputOf(PlanText(net, TEST, {.backward = false, .optimize = false}));
    ForImplementations(leader, net, {}, [&](const auto& plan, const std::string&) {
      EXPECT_FALSE(IsFused(*plan));
      test::ExpectNear({plain}, {OutputOf(plan)}, kTolerance, net);
    });
  }
}

TEST_F(FuseActivation, NotIfAnotherLayerReadsTheValueBefore) {
  for (const Leader& leader : {Convolutions()[0], Products()[0]}) {
    const std::string net = NetOf(leader, {"GELU"}) + LayerText("t", "TanH", "l", "");
    ForImplementations(leader, net, {},
                       [](const auto& plan, const std::string&) { EXPECT_FALSE(IsFused(*plan)); });
  }
}

TEST_F(FuseActivation, NotInTraining) {
  for (const Leader& leader : {Convolutions()[0], Products()[0]}) {
    for (const Activation& activation : Activations()) {
      const std::string net =
          NetOf(leader, activation) +
          LayerText("s", "Reduction", "r", "loss_weight: 1 reduction_param { operation: SUMSQ }");
      EXPECT_FALSE(IsFused(*PlanText(net, TRAIN))) << net;
    }
  }
}

}  // namespace
}  // namespace crema
