// Nets in bfloat16 on a GPU, or on a stand-in if there is none.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/rng.h"
#include "crema.pb.h"
#include "gpu/session_values.h"
#include "runtime/session.h"
#include "support/gpu.h"
#include "support/net.h"
#include "support/random_nets.h"

namespace crema {
namespace {

using test::Distance;
using test::PlanText;

constexpr const char* kHalfNet = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 dim: 12 dim: 12 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 4 } } }
layer { name: "conv1" type: "Convolution" bottom: "x" top: "conv1"
  convolution_param { num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } }
layer { name: "bn1" type: "BatchNorm" bottom: "conv1" top: "bn1" }
layer { name: "scale1" type: "Scale" bottom: "bn1" top: "scale1" scale_param { bias_term: true } }
layer { name: "relu1" type: "ReLU" bottom: "scale1" top: "scale1" }
layer { name: "conv2" type: "Convolution" bottom: "scale1" top: "conv2"
  convolution_param { num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } }
layer { name: "sum" type: "Eltwise" bottom: "conv2" bottom: "scale1" top: "sum" }
layer { name: "pool" type: "Pooling" bottom: "sum" top: "pool"
  pooling_param { pool: AVE kernel_size: 3 stride: 2 } }
layer { name: "flat" type: "Flatten" bottom: "pool" top: "flat" }
layer { name: "ip" type: "InnerProduct" bottom: "flat" top: "ip"
  inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
)";

struct HalfNumbers {
  std::vector<double> losses;
  std::vector<std::vector<float>> gradients, weights;
};

PlanOptions OnGpu(Precision precision) {
  return {.device = {DeviceType::kCuda, 0}, .precision = precision};
}

// Without cuDNN, whose convolutions are channels last: a net this small is not worth the
// conversions and would be planned in single precision.
std::shared_ptr<const Plan> PlanSmall(const std::string& text, Precision precision) {
  return PlanText(text, TRAIN, OnGpu(precision), test::LayersOfStandIn());
}

void SetInputs(Session* session) {
  const RandomStream stream(7, 1);
  std::vector<float> x(4 * 3 * 12 * 12);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(stream.Gaussian(i));
  const std::vector<float> labels{0, 3, 1, 4};
  session->Write(session->MutableData("x"), x.data());
  session->Write(session->MutableData("label"), labels.data());
}

HalfNumbers RunNet(Precision precision) {
  const auto plan = PlanSmall(kHalfNet, precision);
  const std::shared_ptr<Weights> weights = Weights::Make(*plan, 3);
  Session session(plan, weights, test::GpuContext(3));
  SetInputs(&session);
  HalfNumbers numbers;
  for (int i = 0; i < 2; ++i) {
    numbers.losses.push_back(session.Forward());
    session.ZeroParameterGradients();
    session.Backward();
  }
  for (size_t s = 0; s < plan->parameters.size(); ++s) {
    const TensorView gradient = session.ParameterGradient(s);
    if (gradient.empty()) continue;
    EXPECT_EQ(gradient.dtype(), DType::kF32);
    const HostView view(session, gradient);
    numbers.gradients.emplace_back(view->data<float>(), view->data<float>() + view->count());
  }
  session.ReturnStatistics();
  for (size_t s = 0; s < weights->size(); ++s) {
    const auto span = weights->blob(s).span<float>();
    numbers.weights.emplace_back(span.begin(), span.end());
  }
  return numbers;
}

TEST(HalfSession, LearnsAsInSinglePrecision) {
  const HalfNumbers single = RunNet(FP32);
  const HalfNumbers halves = RunNet(BF16);
  ASSERT_EQ(single.gradients.size(), halves.gradients.size());
  for (size_t i = 0; i < single.losses.size(); ++i) {
    EXPECT_NE(single.losses[i], halves.losses[i]);
    EXPECT_NEAR(single.losses[i], halves.losses[i], 0.02 * single.losses[i]);
  }
  // The bias before BatchNorm (1) has no gradient except for rounding.
  for (size_t s = 0; s < single.gradients.size(); ++s) {
    if (s == 1) continue;
    EXPECT_LT(Distance(single.gradients[s], halves.gradients[s]), 0.05) << s;
  }
  for (size_t s = 0; s < single.weights.size(); ++s) {
    EXPECT_LT(Distance(single.weights[s], halves.weights[s]), 0.01) << s;
  }
}

const PlannedValue& ValueOf(const Plan& plan, const std::string& name) {
  return plan.values[static_cast<size_t>(plan.FindFirstValue(name))];
}

TEST(HalfSession, CastsAreLayersWhereFormatsMeet) {
  const auto plan = PlanSmall(kHalfNet, BF16);
  for (const char* name : {"conv1", "bn1", "conv2", "sum", "pool", "flat"}) {
    EXPECT_EQ(ValueOf(*plan, name).spec.format, MemoryFormat{.type = DType::kBF16}) << name;
  }
  EXPECT_EQ(ValueOf(*plan, "loss").spec.format, MemoryFormat{});
  const auto casts = std::ranges::count_if(
      plan->layers, [](const PlannedLayer& layer) { return layer.type->name == "Reorder"; });
  EXPECT_EQ(casts, 2);  // of x, and before the loss
}

TEST(HalfSession, NoCastsAroundActivations) {
  const std::string head = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 8 dim: 64 dim: 64 } } }
layer { name: "conv" type: "Convolution" bottom: "x" top: "conv"
  convolution_param { num_output: 64 kernel_size: 3 pad: 1 } }
)";
  for (const char* type : {"Swish", "SiLU", "HardSwish", "HSwish", "HardSigmoid", "HSigmoid",
                           "Mish", "GELU", "BNLL"}) {
    std::string text = head;
    std::string bottom = "conv";
    for (int i = 0; i < 3; ++i) {
      const std::string name = "act" + std::to_string(i);
      text += "layer { name: '" + name + "' type: '" + type + "' bottom: '" + bottom + "' top: '" +
              name + "' }\n";
      bottom = name;
    }
    text += "layer { name: 'last' type: 'Convolution' bottom: '" + bottom +
            "' top: 'last' convolution_param { num_output: 64 kernel_size: 3 pad: 1 } }\n";
    for (const Precision precision : {FP16, BF16}) {
      // g++ before 13 has no such type for the stand-in.
      if (precision == FP16 && !test::HasF16OnGpu()) continue;
      const auto plan = PlanText(text, TEST, OnGpu(precision));
      for (size_t i = 1; i + 1 < plan->layers.size(); ++i) {
        const PlannedLayer& layer = plan->layers[i];
        if (layer.type->name != "Reorder") continue;
        const std::string& of = plan->values[static_cast<size_t>(layer.inputs[0])].name;
        EXPECT_TRUE(of == "x" || of == "last") << type << ": a cast of " << of;
      }
      EXPECT_NE(ValueOf(*plan, "act1").spec.format, MemoryFormat{})
          << type << ' ' << Precision_Name(precision);
    }
  }
}

TEST(HalfSession, ALayerMayAskForAnother) {
  // Larger images: casts before and after small blobs take longer than they save.
  std::string text = kHalfNet;
  text.replace(text.find("dim: 12 dim: 12"), 15, "dim: 96 dim: 96");
  text.insert(text.find("  convolution_param { num_output: 8 kernel_size: 3 pad: 1 "
                        "weight_filler { type: \"msra\" } } }\nlayer { name: \"sum\""),
              "precision: FP32 ");
  const auto plan = PlanSmall(text, BF16);
  EXPECT_EQ(ValueOf(*plan, "conv1").spec.format, MemoryFormat{.type = DType::kBF16});
  EXPECT_EQ(ValueOf(*plan, "conv2").spec.format, MemoryFormat{});
}

TEST(HalfSession, LargeProductsAreWorthTheCasts) {
  const auto plan = PlanSmall(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 64 dim: 512 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 64 } } }
layer { name: "scores" type: "InnerProduct" bottom: "x" top: "scores"
  inner_product_param { num_output: 4096 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label" top: "loss" }
)",
                              BF16);
  EXPECT_EQ(ValueOf(*plan, "scores").spec.format, MemoryFormat{.type = DType::kBF16});
}

TEST(HalfSession, TakesHalfTheMemory) {
  const auto single = PlanSmall(kHalfNet, FP32);
  const auto halves = PlanSmall(kHalfNet, BF16);
  EXPECT_LT(static_cast<double>(halves->arena_bytes),
            0.65 * static_cast<double>(single->arena_bytes));
}

// Each layer of random nets computes what the same net does in f32, but for rounding.
TEST(HalfSession, RandomNetsAgree) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const std::string text = test::NetMaker(seed, test::Kind::kSmooth).Make();
    std::vector<double> losses;
    for (const Precision precision : {FP32, BF16}) {
      const auto plan = PlanText(text, TRAIN, OnGpu(precision));
      Session session(plan, Weights::Make(*plan, 3), test::GpuContext(3));
      if (const TensorView x = session.MutableData("x"); !x.empty()) {
        std::vector<float> values(static_cast<size_t>(x.count()));
        const RandomStream stream(seed, 1);
        for (size_t i = 0; i < values.size(); ++i) {
          values[i] = static_cast<float>(2 * stream.Uniform(i) - 1);
        }
        session.Write(x, values.data());
      }
      losses.push_back(session.Forward());
      session.ZeroParameterGradients();
      session.Backward();
    }
    EXPECT_NEAR(losses[0], losses[1], 0.05 * (std::abs(losses[0]) + 0.1)) << text;
  }
}

}  // namespace
}  // namespace crema
