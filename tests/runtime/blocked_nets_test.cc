// Nets whose values are blocked and whose layers are fused compute what the plain nets do.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "support/net.h"
#include "support/pass_variants.h"
#include "support/random_nets.h"

namespace crema {
namespace {

using test::FillInput;
using test::PlanText;
using test::ValuesOf;

using test::ExpectNear;
using test::Kind;
using test::NetMaker;

struct NetNumbers {
  std::vector<std::vector<float>> outputs;
  std::vector<std::vector<float>> gradients;
};

// Statistics that are not 0: those after three passes.
std::shared_ptr<Weights> WarmWeights(const std::string& text) {
  const auto plan = PlanText(text, TRAIN, {.optimize = false});
  auto weights = Weights::Make(*plan, 3);
  Session session(plan, weights, ExecContext(1, 3));
  for (uint64_t i = 0; i < 3; ++i) {
    FillInput(&session, "x", 50 + i);
    session.Forward();
  }
  return weights;
}

NetNumbers RunNet(const std::string& text, Phase phase, const PlanOptions& options,
                  bool fixed = false) {
  const auto warm = WarmWeights(text);
  const auto plan = PlanText(text, phase, options);
  const std::shared_ptr<const Weights> weights = Weights::ShareWith(*plan, *warm, 3);
  Session session(plan, weights, ExecContext(options.threads, 3));
  if (fixed) session.FixWeights();
  NetNumbers numbers;
  for (uint64_t i = 0; i < 2; ++i) {
    FillInput(&session, "x", i);
    session.Forward();
    for (int v : plan->outputs) numbers.outputs.push_back(ValuesOf(session.DataOf(v)));
    if (!options.backward) continue;
    session.ZeroParameterGradients();
    session.Backward();
    for (size_t s = 0; s < plan->parameters.size(); ++s) {
      const TensorView gradient = session.ParameterGradient(s);
      numbers.gradients.push_back(gradient.empty() ? std::vector<float>() : ValuesOf(gradient));
    }
  }
  return numbers;
}

TEST(BlockedNets, InferAsPlainOnes) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const std::string text = NetMaker(seed).Make();
    const NetNumbers plain = RunNet(text, TEST, {.backward = false, .optimize = false});
    for (int threads : {1, 2}) {
      const PlanOptions options{.threads = threads, .backward = false};
      const NetNumbers blocked = RunNet(text, TEST, options);
      ASSERT_NO_FATAL_FAILURE(ExpectNear(plain.outputs, blocked.outputs, 1e-4, text));
      ASSERT_EQ(RunNet(text, TEST, options, true).outputs, blocked.outputs) << text;
    }
  }
}

TEST(BlockedNets, LearnAsPlainOnes) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const std::string text = NetMaker(seed, Kind::kSmooth).Make();
    const NetNumbers plain = RunNet(text, TRAIN, {.optimize = false});
    const NetNumbers blocked = RunNet(text, TRAIN, {.threads = 2});
    ASSERT_NO_FATAL_FAILURE(ExpectNear(plain.outputs, blocked.outputs, 1e-3, text));
    ASSERT_NO_FATAL_FAILURE(ExpectNear(plain.gradients, blocked.gradients, 5e-3, text));
  }
}

TEST(BlockedNets, EachPassAloneOnOrOffChangesNothing) {
  for (uint64_t seed = 100; seed < 112; ++seed) {
    const std::string infer = NetMaker(seed).Make();
    const std::string learn = NetMaker(seed, Kind::kSmooth).Make();
    const NetNumbers inferred = RunNet(infer, TEST, {.backward = false, .optimize = false});
    const NetNumbers learned = RunNet(learn, TRAIN, {.optimize = false});
    for (const std::string& passes : test::PassVariants()) {
      SCOPED_TRACE(passes);
      const NetNumbers out =
          RunNet(infer, TEST, {.threads = 2, .backward = false, .passes = ParsePasses(passes)});
      ASSERT_NO_FATAL_FAILURE(ExpectNear(inferred.outputs, out.outputs, 1e-4, infer));
      const NetNumbers got = RunNet(learn, TRAIN, {.threads = 2, .passes = ParsePasses(passes)});
      ASSERT_NO_FATAL_FAILURE(ExpectNear(learned.outputs, got.outputs, 1e-3, learn));
      ASSERT_NO_FATAL_FAILURE(ExpectNear(learned.gradients, got.gradients, 5e-3, learn));
    }
  }
}

// The results of three iterations: losses, gradients, and running means and variances.
std::vector<std::vector<float>> Iterate(const std::string& text, const PlanOptions& options) {
  const auto plan = PlanText(text, TRAIN, options);
  const std::shared_ptr<Weights> weights = Weights::Make(*plan, 3);
  Session session(plan, weights, ExecContext(options.threads, 3));
  std::vector<std::vector<float>> numbers;
  for (uint64_t i = 0; i < 3; ++i) {
    FillInput(&session, "x", i);
    session.ZeroParameterGradients();
    numbers.push_back({static_cast<float>(session.Forward())});
    session.Backward();
  }
  for (size_t s = 0; s < plan->parameters.size(); ++s) {
    const TensorView gradient = session.ParameterGradient(s);
    if (!gradient.empty()) numbers.push_back(ValuesOf(gradient));
    if (plan->parameters[s].statistic) numbers.push_back(ValuesOf(weights->blob(s)));
  }
  return numbers;
}

int FusedOf(const std::string& text, Phase phase = TRAIN, const PlanOptions& options = {}) {
  const auto plan = PlanText(text, phase, options);
  return static_cast<int>(std::ranges::count_if(
      plan->layers, [](const PlannedLayer& layer) { return layer.fusion.leader >= 0; }));
}

TEST(BlockedNets, BatchNormFusesScaleAndReluInTraining) {
  const std::string head = R"(
layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 3 dim: 16 dim: 24 dim: 22 } } }
layer { name: 'a' type: 'Convolution' bottom: 'x' top: 'a' convolution_param { num_output: 32
  kernel_size: 3 bias_term: false weight_filler { type: 'xavier' } } }
)";
  const std::string norm = "layer { name: 'n' type: 'BatchNorm' bottom: 'a' top: 'a' }\n";
  const auto scale = [](const std::string& fields) {
    return "layer { name: 's' type: 'Scale' bottom: 'a' top: 'a' scale_param { filler { type: "
           "'uniform' min: 0.5 max: 1.5 } bias_filler { type: 'uniform' min: -1 max: 1 } " +
           fields + " } }\n";
  };
  const auto relu = [](const std::string& fields) {
    return "layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'a' relu_param { " + fields + " } }\n";
  };
  const std::string tail = R"(
layer { name: 'b' type: 'Convolution' bottom: 'a' top: 'b' convolution_param { num_output: 16
  kernel_size: 3 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'Reduction' bottom: 'b' top: 'loss' loss_weight: 0.01
  reduction_param { operation: SUMSQ } }
)";
  const bool fuses = FusedOf(head + norm + relu("") + tail) == 1;
  if (!fuses) GTEST_SKIP() << "no implementation of this build or processor takes blocked blobs";
  const std::vector<std::string> bodies = {norm + scale("bias_term: true") + relu(""),
                                           norm + scale("") + relu("negative_slope: 0.2"),
                                           norm + scale("bias_term: true"), norm + relu("")};
  for (const std::string& body : bodies) {
    const std::string text = head + body + tail;
    EXPECT_GT(FusedOf(text), 0) << text;
    const auto plain = Iterate(text, {.optimize = false});
    for (int threads : {1, 3}) {
      const auto blocked = Iterate(text, {.threads = threads});
      ASSERT_NO_FATAL_FAILURE(ExpectNear(plain, blocked, 2e-3, text));
      EXPECT_EQ(Iterate(text, {.threads = threads}), blocked) << "not the same bytes again";
    }
  }
  // Recomputed layers are not fused, and compute the same.
  std::string again = head + bodies[0] + tail;
  again.replace(again.find("type: 'Scale'"), 0, "recompute: true ");
  EXPECT_EQ(FusedOf(again), 0);
  ExpectNear(Iterate(again, {.optimize = false}), Iterate(again, {}), 2e-3, again);
}

// Without a preceding convolution that would fuse it into its weights.
TEST(BlockedNets, BatchNormFusesScaleAndReluWithStoredStatistics) {
  const std::string head = R"(
layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 3 dim: 16 dim: 24 dim: 22 } } }
layer { name: 'a' type: 'Convolution' bottom: 'x' top: 'a' convolution_param { num_output: 32
  kernel_size: 3 weight_filler { type: 'xavier' } } }
layer { name: 'p' type: 'Pooling' bottom: 'a' top: 'p' pooling_param { kernel_size: 2 stride: 2 } }
)";
  const std::string norm = "layer { name: 'n' type: 'BatchNorm' bottom: 'p' top: 'n' ";
  const std::string scale =
      "layer { name: 's' type: 'Scale' bottom: 'n' top: 'n' scale_param { bias_term: true filler { "
      "type: 'uniform' min: 0.5 max: 1.5 } bias_filler { type: 'uniform' min: -1 max: 1 } } }\n";
  const std::string relu = "layer { name: 'r' type: 'ReLU' bottom: 'n' top: 'n' }\n";
  const std::string tail = R"(
layer { name: 'b' type: 'Convolution' bottom: 'n' top: 'b' convolution_param { num_output: 16
  kernel_size: 3 weight_filler { type: 'xavier' } } }
)";
  const PlanOptions options{.threads = 2, .backward = false};
  if (FusedOf(head + norm + "}\n" + relu + tail, TEST, options) == 0) {
    GTEST_SKIP() << "no implementation of this build or processor takes blocked blobs";
  }
  for (const char* fields : {"}\n", "batch_norm_param { use_global_stats: false } }\n"}) {
    for (const std::string& after : {std::string(), scale, relu, scale + relu}) {
      const std::string text = head + norm + fields + after + tail;
      EXPECT_EQ(FusedOf(text, TEST, options), (after.empty() ? 0 : after == scale + relu ? 2 : 1));
      const NetNumbers plain = RunNet(text, TEST, {.backward = false, .optimize = false});
      ASSERT_NO_FATAL_FAILURE(
          ExpectNear(plain.outputs, RunNet(text, TEST, options).outputs, 1e-4, text));
    }
  }
}

TEST(BlockedNets, TakeSmallerInputs) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    std::string text = NetMaker(seed).Make();
    text.erase(text.find("layer { name: 'l", text.rfind("InnerProduct") - 40));
    const auto small = [&](bool optimize, const Shape& shape) {
      const auto plan = PlanText(text, TEST, {.backward = false, .optimize = optimize});
      const std::shared_ptr<const Weights> weights = Weights::Make(*plan, 3);
      Session session(plan, weights, ExecContext(1, 3));
      session.FixWeights();
      FillInput(&session, "x", 1);
      session.Forward();
      session.Reshape("x", shape);
      FillInput(&session, "x", 1);
      session.Forward();
      return std::vector<std::vector<float>>{ValuesOf(session.DataOf(plan->outputs[0]))};
    };
    const int64_t channels = text.find("dim: 3 dim: 9") != std::string::npos ? 3 : 16;
    const Shape shape{1, channels, 7, 5};
    ASSERT_NO_FATAL_FAILURE(ExpectNear(small(false, shape), small(true, shape), 1e-4, text));
  }
}

TEST(BlockedNets, RunOnFewerThreadsThanPlanned) {
  const std::string text = NetMaker(4).Make();
  const auto plan = PlanText(text, TRAIN, {.threads = 4});
  const std::shared_ptr<const Weights> weights = Weights::Make(*plan, 3);
  std::vector<std::vector<float>> outputs;
  for (int threads : {4, 1}) {
    Session session(plan, weights, ExecContext(threads, 3));
    FillInput(&session, "x", 1);
    session.Forward();
    session.Backward();
    outputs.push_back(ValuesOf(session.DataOf(plan->outputs[0])));
  }
  ExpectNear({outputs[0]}, {outputs[1]}, 1e-4, text);
}

// NaN in the data must show in the loss.
TEST(Products, NotANumberStaysOne) {
  const std::string text =
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 4 dim: 36 } } }\n"
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param { "
      "num_output: 2048 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'relu' type: 'ReLU' bottom: 'ip' top: 'ip' }\n";
  for (const Precision precision : {FP32, BF16}) {
    const auto plan = PlanText(text, TEST, {.backward = false, .precision = precision});
    const std::shared_ptr<const Weights> weights = Weights::Make(*plan, 3);
    Session session(plan, weights, ExecContext(1, 3));
    session.FixWeights();
    const ConstTensorView x = session.Data("x");
    auto* values = static_cast<float*>(const_cast<void*>(x.raw()));
    std::fill_n(values, x.count(), std::numeric_limits<float>::quiet_NaN());
    session.Forward();
    for (float y : ValuesOf(session.DataOf(plan->outputs[0]))) ASSERT_TRUE(std::isnan(y));
  }
}

}  // namespace
}  // namespace crema
