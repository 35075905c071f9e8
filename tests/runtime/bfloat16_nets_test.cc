// Nets whose values are stored as bfloat16 compute nearly what they do in single precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/bfloat16.h"
#include "crema.pb.h"
#include "plan/summary.h"
#include "support/net.h"

namespace crema {
namespace {

using test::FillInput;
using test::ValuesOf;

// Large enough for rows of bfloat16 to be worth their reorders.
const char* const kBFloat16Net = R"(
layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 4 dim: 3 dim: 32 dim: 32 } } }
layer { name: 'a' type: 'Convolution' bottom: 'x' top: 'a' convolution_param { num_output: 32
  kernel_size: 5 pad: 2 stride: 2 weight_filler { type: 'msra' } } }
layer { name: 'na' type: 'BatchNorm' bottom: 'a' top: 'a' }
layer { name: 'sa' type: 'Scale' bottom: 'a' top: 'a' scale_param { bias_term: true } }
layer { name: 'ra' type: 'ReLU' bottom: 'a' top: 'a' }
layer { name: 'p' type: 'Pooling' bottom: 'a' top: 'p' pooling_param { kernel_size: 3 pad: 1 } }
layer { name: 'b' type: 'Convolution' bottom: 'p' top: 'b' convolution_param { num_output: 64
  kernel_size: 1 bias_term: false weight_filler { type: 'msra' } } }
layer { name: 'nb' type: 'BatchNorm' bottom: 'b' top: 'b' }
layer { name: 'rb' type: 'ReLU' bottom: 'b' top: 'b' }
layer { name: 'c' type: 'Convolution' bottom: 'b' top: 'c' convolution_param { num_output: 64
  kernel_size: 3 pad: 1 group: 2 weight_filler { type: 'msra' } } fused_relu_param {} }
layer { name: 'd' type: 'Convolution' bottom: 'c' top: 'd' convolution_param { num_output: 64
  kernel_size: 1 weight_filler { type: 'msra' } } }
layer { name: 'sum' type: 'Eltwise' bottom: 'd' bottom: 'b' top: 'sum' }
layer { name: 'rs' type: 'ReLU' bottom: 'sum' top: 'sum' relu_param { negative_slope: 0.1 } }
layer { name: 'n' type: 'LRN' bottom: 'sum' top: 'n' lrn_param { alpha: 0.1 } }
layer { name: 'w' type: 'Convolution' bottom: 'n' top: 'w' convolution_param { num_output: 64
  group: 64 kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }
layer { name: 'j' type: 'Concat' bottom: 'w' bottom: 'p' top: 'j' }
layer { name: 'e' type: 'Convolution' bottom: 'j' top: 'e' convolution_param { num_output: 64
  kernel_size: 1 weight_filler { type: 'msra' } } }
layer { name: 'g' type: 'Pooling' bottom: 'e' top: 'g' pooling_param { pool: AVE
  global_pooling: true } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'g' top: 'ip' inner_product_param { num_output: 5
  weight_filler { type: 'xavier' } } }
)";

const char* const kLoss =
    "layer { name: 'loss' type: 'Reduction' bottom: 'ip' top: 'loss' loss_weight: 1 "
    "reduction_param { operation: SUMSQ axis: 0 } }\n";

int ValuesStoredAs(const Plan& plan, MemoryFormat format) {
  return static_cast<int>(std::ranges::count_if(
      plan.values, [&](const PlannedValue& v) { return v.spec.format == format; }));
}

double Norm(const std::vector<float>& values) {
  double sum = 0;
  for (float v : values) sum += double{v} * double{v};
  return std::sqrt(sum);
}

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> difference(a.size());
  for (size_t i = 0; i < a.size(); ++i) difference[i] = a[i] - b[i];
  return Norm(difference);
}

struct Learned {
  std::vector<float> outputs;
  std::vector<std::vector<float>> gradients;
  std::vector<double> losses;
};

// Tests one layout of bfloat16 blobs.
class BFloat16Nets : public testing::TestWithParam<Layout> {
 protected:
  void SetUp() override {
    if (!HasBFloat16()) GTEST_SKIP() << "this processor does not multiply bfloat16";
    const auto& implementations = test::TestRegistry().Find("Convolution")->implementations;
    const auto stores = [](const ImplementationPtr& one) { return one->output_format == format(); };
    if (std::ranges::none_of(implementations, stores))
      GTEST_SKIP() << "this build has no implementation that stores it";
    const auto plan = PlanWithGain(kBFloat16Net, TEST, {.backward = false, .precision = BF16});
    ASSERT_GT(ValuesStoredAs(*plan, format()), 5);
  }

  static MemoryFormat format() { return {GetParam(), DType::kBF16}; }

  // Plans for a processor on which bfloat16 gains in this layout, so that nets use it on every
  // machine that has it.
  static std::shared_ptr<const Plan> PlanWithGain(const std::string& text, Phase phase,
                                                  PlanOptions options) {
    const bool last = GetParam() == Layout::kNHWC;
    options.processor.bfloat16_speedup = last ? 0.25 : 2;
    options.processor.channels_last_speedup = last ? 32 : 0;
    return test::PlanText(text, phase, std::move(options));
  }

  // `steps` of gradient descent on one batch; gradients are those of the first.
  static Learned Learn(const PlanOptions& options, int steps) {
    const auto plan = PlanWithGain(std::string(kBFloat16Net) + kLoss, TRAIN, options);
    const std::shared_ptr<Weights> weights = Weights::Make(*plan, 3);
    Session session(plan, weights, ExecContext(options.threads, 3));
    Learned result;
    for (int step = 0; step < steps; ++step) {
      FillInput(&session, "x", 1);
      session.ZeroParameterGradients();
      result.losses.push_back(session.Forward());
      session.Backward();
      for (size_t s = 0; s < plan->parameters.size(); ++s) {
        const TensorView gradient = session.ParameterGradient(s);
        if (gradient.empty()) continue;
        if (step == 0) result.gradients.push_back(ValuesOf(gradient));
        const std::span<float> values = weights->blob(s).span<float>();
        for (size_t i = 0; i < values.size(); ++i) values[i] -= 0.0002F * gradient.span<float>()[i];
      }
    }
    return result;
  }
};

// Each of some ten values in a row is off by up to 2^-8 of itself, by chance in either direction.
TEST_P(BFloat16Nets, InferNearlyAsInSinglePrecision) {
  std::vector<float> single;
  for (const Precision precision : {FP32, BF16}) {
    for (int threads : {1, 2}) {
      const PlanOptions options{.threads = threads, .backward = false, .precision = precision};
      const auto plan = PlanWithGain(kBFloat16Net, TEST, options);
      EXPECT_EQ(ValuesStoredAs(*plan, format()) > 5, precision == BF16) << DescribePlan(*plan);
      const std::shared_ptr<const Weights> weights = Weights::Make(*plan, 3);
      Session session(plan, weights, ExecContext(threads, 3));
      session.FixWeights();
      std::vector<float> first;
      for (int pass = 0; pass < 2; ++pass) {
        FillInput(&session, "x", 1);
        session.Forward();
        const std::vector<float> outputs = ValuesOf(session.DataOf(plan->outputs[0]));
        if (pass == 1) {
          EXPECT_EQ(outputs, first) << "not the same bytes again";
        }
        first = outputs;
      }
      if (single.empty()) single = first;
      EXPECT_LT(Distance(first, single), (precision == BF16 ? 0.02 : 1e-4) * Norm(single));
    }
  }
}

TEST_P(BFloat16Nets, LearnAsInSinglePrecision) {
  const Learned single = Learn({.threads = 2}, 15);
  const Learned half = Learn({.threads = 2, .precision = BF16}, 15);
  ASSERT_EQ(single.gradients.size(), half.gradients.size());
  double largest = 0;
  for (const std::vector<float>& gradient : single.gradients) {
    largest = std::max(largest, Norm(gradient));
  }
  // Rounding can change maxima and signs, and single elements then change completely.
  for (size_t k = 0; k < single.gradients.size(); ++k) {
    EXPECT_LT(Distance(single.gradients[k], half.gradients[k]),
              0.1 * Norm(single.gradients[k]) + 0.002 * largest)
        << k;
  }
  EXPECT_LT(single.losses.back(), 0.5 * single.losses.front());
  EXPECT_NEAR(half.losses.front(), single.losses.front(), 0.03 * single.losses.front());
  EXPECT_NEAR(half.losses.back(), single.losses.back(), 0.03 * single.losses.front());
}

TEST_P(BFloat16Nets, LearnTheSameBytesAgain) {
  const PlanOptions options{.threads = 2, .precision = BF16};
  EXPECT_EQ(Learn(options, 3).losses, Learn(options, 3).losses);
}

TEST_P(BFloat16Nets, TakeSmallerInputs) {
  const auto run = [](const PlanOptions& options) {
    const auto plan = PlanWithGain(kBFloat16Net, TEST, options);
    const std::shared_ptr<const Weights> weights = Weights::Make(*plan, 3);
    Session session(plan, weights, ExecContext(1, 3));
    for (const Shape& shape : {Shape{4, 3, 32, 32}, Shape{1, 3, 9, 17}, Shape{2, 3, 32, 20}}) {
      session.Reshape("x", shape);
      FillInput(&session, "x", 1);
      session.Forward();
    }
    return ValuesOf(session.DataOf(plan->outputs[0]));
  };
  const std::vector<float> single = run({.backward = false, .optimize = false});
  const std::vector<float> half = run({.backward = false, .precision = BF16});
  ASSERT_EQ(single.size(), half.size());
  EXPECT_LT(Distance(single, half), 0.02 * Norm(single));
}

TEST_P(BFloat16Nets, RunOnFewerThreadsThanPlanned) {
  const auto plan =
      PlanWithGain(std::string(kBFloat16Net) + kLoss, TRAIN, {.threads = 4, .precision = BF16});
  const std::shared_ptr<const Weights> weights = Weights::Make(*plan, 3);
  std::vector<double> losses;
  for (int threads : {4, 1}) {
    Session session(plan, weights, ExecContext(threads, 3));
    FillInput(&session, "x", 1);
    losses.push_back(session.Forward());
    session.Backward();
  }
  EXPECT_NEAR(losses[0], losses[1], 0.01 * losses[0]);
}

TEST_P(BFloat16Nets, MultiplyByFixedWeightsThatWereRounded) {
  const auto text = [](const std::string& fields, const std::string& more) {
    return "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 3 dim: 24 dim: 5 "
           "dim: 5 } } } layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' "
           "inner_product_param { num_output: 130 weight_filler { type: 'xavier' } bias_filler { "
           "type: 'gaussian' } " +
           fields + " } " + more + " }";
  };
  const auto run = [](const std::string& net, Precision precision, bool fixed) {
    const auto plan =
        PlanWithGain(net, TEST, {.threads = 2, .backward = false, .precision = precision});
    EXPECT_EQ(plan->layers.back().implementation->name,
              precision == BF16 ? "onednn bf16" : "onednn");
    const std::shared_ptr<const Weights> weights = Weights::Make(*plan, 3);
    Session session(plan, weights, ExecContext(2, 3));
    if (fixed) session.FixWeights();
    std::vector<float> all;
    for (const int64_t batch : {3, 1, 2}) {
      session.Reshape("x", {batch, 24, 5, 5});
      FillInput(&session, "x", 1);
      session.Forward();
      for (float v : ValuesOf(session.DataOf(plan->outputs[0]))) all.push_back(v);
    }
    return all;
  };
  for (const std::string& net :
       {text("", ""), text("transpose: true", "fused_relu_param {}"),
        text("bias_term: false", "fused_relu_param { negative_slope: 0.5 }")}) {
    const std::vector<float> single = run(net, FP32, true);
    const std::vector<float> half = run(net, BF16, true);
    // Two roundings of up to 2^-8 for each product, by chance in either direction.
    EXPECT_LT(Distance(single, half), 0.005 * Norm(single)) << net;
    EXPECT_GT(Distance(single, half), 0) << net;
    // By the native implementation, whose sums are in another order.
    EXPECT_LT(Distance(single, run(net, BF16, false)), 1e-6 * Norm(single)) << net;
  }
}

TEST_P(BFloat16Nets, KeepParametersInSinglePrecision) {
  const auto plan = PlanWithGain(std::string(kBFloat16Net) + kLoss, TRAIN, {.precision = BF16});
  const std::shared_ptr<Weights> weights = Weights::Make(*plan, 3);
  Session session(plan, weights, ExecContext(1, 3));
  for (size_t s = 0; s < plan->parameters.size(); ++s) {
    EXPECT_EQ(weights->blob(s).dtype(), DType::kF32);
    const TensorView gradient = session.ParameterGradient(s);
    if (!gradient.empty()) {
      EXPECT_EQ(gradient.dtype(), DType::kF32);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, BFloat16Nets, testing::Values(Layout::kBlocked, Layout::kNHWC),
                         [](const auto& layout) {
                           return layout.param == Layout::kNHWC ? "ChannelsLast" : "Blocked";
                         });

}  // namespace
}  // namespace crema
