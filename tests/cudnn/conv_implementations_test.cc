// Implementations "cudnn" of convolutions against native code, cuDNN being a stand-in that computes
// plainly.
#include <algorithm>
#include <cmath>
#include <map>

#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "cudnn/cudnn_fixture.h"
#include "graph/implementation.h"
#include "implementations/implementation_agreement.h"
#include "math/cuda/emulation.h"
#include "runtime/session.h"
#include "support/gpu.h"

namespace crema::test {
namespace {

using CudnnImplementations = CudnnTest;

// The type with its implementations by cuDNN alone.
LayerType ByCudnn(const Registry& registry, const std::string& name) {
  LayerType type = *registry.Find(name);
  std::erase_if(type.implementations, [](const ImplementationPtr& implementation) {
    return !implementation->name.starts_with("cudnn");
  });
  return type;
}

void ExpectAgreement(const Registry& registry, const std::string& name, int cases) {
  const LayerType type = ByCudnn(registry, name);
  const auto generator = Generators().find(name);
  ASSERT_NE(generator, Generators().end());
  std::map<std::string, int> reached;
  for (int number = 0; number < cases; ++number) {
    Draw draw(MixBits(HashName(name + " by cuDNN"), static_cast<uint64_t>(number)));
    ImplementationCase implementation_case = generator->second(type, draw);
    implementation_case.sample.name = StrCat("case ", number);
    const Gradients wanted = number % 4 == 0   ? Gradients::kNone
                             : number % 4 == 1 ? Gradients::kParameters
                                               : Gradients::kAll;
    for (const std::string& failure :
         CompareImplementations(type, implementation_case, 1, wanted, &reached)) {
      ADD_FAILURE() << failure;
    }
  }
  for (const char* implementation :
       {"cudnn", "cudnn, unfused", "cudnn NHWC", "cudnn NHWC, unfused"}) {
    EXPECT_EQ(reached[implementation], cases) << implementation << " of " << name;
  }
}

TEST_F(CudnnImplementations, AgreeWithNativeCodeOnRandomConvolutions) {
  ExpectAgreement(*registry_, "Convolution", 60);
  EXPECT_GT(FakeCounts().runs[7], 100);
}

TEST_F(CudnnImplementations, AgreeWithNativeCodeOnRandomDeconvolutions) {
  ExpectAgreement(*registry_, "Deconvolution", 60);
}

TEST_F(CudnnImplementations, AgreeWithNativeCodeOnDepthwiseConvolutions) {
  ExpectAgreement(*registry_, "ConvolutionDepthwise", 30);
}

// Other numbers of axes, several inputs, channels on another axis.
TEST_F(CudnnImplementations, AgreeWithNativeCodeOnSamples) {
  for (const char* name : {"Convolution", "Deconvolution", "Convolution3D"}) {
    const LayerType type = ByCudnn(*registry_, name);
    int ran = 0;
    for (const LayerSample& sample : type.samples) {
      if (sample.inputs[0].shape[0] == 0) continue;
      ImplementationCase implementation_case{
          .sample = sample, .forward_terms = 200, .input_terms = 200, .parameter_terms = 200};
      std::map<std::string, int> reached;
      for (const std::string& failure :
           CompareImplementations(type, implementation_case, 1, Gradients::kAll, &reached)) {
        ADD_FAILURE() << failure;
      }
      ran += reached["cudnn"];
    }
    EXPECT_GT(ran, 2) << name;
  }
}

// Large enough that halves pay.
constexpr const char* kNet = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 8 dim: 20 dim: 20 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 } } }
layer { name: "conv1" type: "Convolution" bottom: "x" top: "conv1"
  convolution_param { num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: "msra" }
  bias_filler { type: "gaussian" } } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "conv2" type: "Convolution" bottom: "conv1" top: "conv2"
  convolution_param { num_output: 16 kernel_size: 3 pad: 1 group: 2
  weight_filler { type: "msra" } } }
layer { name: "sum" type: "Eltwise" bottom: "conv2" bottom: "conv1" top: "sum" }
layer { name: "relu2" type: "ReLU" bottom: "sum" top: "sum" }
layer { name: "up" type: "Deconvolution" bottom: "sum" top: "up"
  convolution_param { num_output: 16 kernel_size: 4 stride: 2 pad: 1
  weight_filler { type: "msra" } } }
layer { name: "ip" type: "InnerProduct" bottom: "up" top: "ip"
  inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
)";

struct Learnt {
  double loss = 0;
  std::vector<float> gradients;
};

Learnt RunNet(const std::shared_ptr<const Plan>& plan) {
  Session session(plan, Weights::Make(*plan, 3), GpuContext(3));
  const RandomStream stream(7, 1);
  std::vector<float> x(2 * 8 * 20 * 20);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(stream.Gaussian(i));
  const std::vector<float> labels{0, 3};
  session.Write(session.MutableData("x"), x.data());
  session.Write(session.MutableData("label"), labels.data());
  Learnt learnt;
  for (int pass = 0; pass < 2; ++pass) {  // the second on what the first has made
    learnt.loss = session.Forward();
    if (!plan->options.backward) continue;
    session.ZeroParameterGradients();
    session.Backward();
  }
  for (size_t s = 0; s < plan->parameters.size(); ++s) {
    const TensorView gradient = session.ParameterGradient(s);
    if (gradient.empty()) continue;
    const HostView view(session, gradient);
    learnt.gradients.insert(learnt.gradients.end(), view->data<float>(),
                            view->data<float>() + view->count());
  }
  return learnt;
}

// |a - b| over |a|.
double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - double{b[i]}, 2);
    size += std::pow(double{a[i]}, 2);
  }
  return std::sqrt(difference / size);
}

TEST_F(CudnnImplementations, TrainANetInEveryPrecision) {
  Learnt native;
  {
    FakeRules().refuse = [](const auto&) { return "not today"; };
    const auto plan = PlanOn(kNet, TRAIN);
    EXPECT_EQ(LayerOf(*plan, "conv1").implementation->name, "cuda");
    native = RunNet(plan);
  }
  FakeRules().refuse = {};
  // In TF32 and in 16 bits factors are rounded by 2^-11 and 2^-9 at most.
  const std::map<Precision, double> errors{{FP32, 1e-5}, {TF32, 1e-3}, {BF16, 0.03}, {FP16, 0.004}};
  for (const auto& [precision, error] : errors) {
    AskAnew();
    FakeCounts().runs.clear();
    const auto plan = PlanOn(kNet, TRAIN, {.precision = precision});
    for (const char* layer : {"conv1", "conv2", "up"}) {
      const std::string implementation = precision == BF16   ? "cudnn NHWC bf16"
                                         : precision == FP16 ? "cudnn NHWC f16"
                                         : precision == TF32 ? "cudnn NHWC tf32"
                                                             : "cudnn";
      EXPECT_EQ(LayerOf(*plan, layer).implementation->name, implementation) << layer;
    }
    const Learnt learnt = RunNet(plan);
    // Three layers, two passes: forward, to weights, and but for the first to input.
    EXPECT_EQ(FakeCounts().runs[7], 2 * (3 + 3 + 2)) << Precision_Name(precision);
    EXPECT_NEAR(learnt.loss, native.loss, error * native.loss) << Precision_Name(precision);
    ASSERT_EQ(learnt.gradients.size(), native.gradients.size());
    EXPECT_LT(Distance(native.gradients, learnt.gradients), error) << Precision_Name(precision);
  }
}

TEST_F(CudnnImplementations, FuseSumsAndReluWhereCudnnCan) {
  double native = 0;
  {
    FakeRules().refuse = [](const auto&) { return "not today"; };
    native = RunNet(PlanOn(kNet, TEST)).loss;
  }
  FakeRules().refuse = {};
  for (const Precision precision : {FP32, BF16}) {
    AskAnew();
    const auto plan = PlanOn(kNet, TEST, {.precision = precision});
    EXPECT_EQ(LayerOf(*plan, "conv2").fusion.layers.size(), 2U);
    EXPECT_NEAR(RunNet(plan).loss, native, (precision == FP32 ? 1e-5 : 0.03) * native);
  }
}

// BatchNorm, Scale and BN become weights and bias.
TEST_F(CudnnImplementations, FoldWhatScalesChannels) {
  const std::string filler = " weight_filler { type: 'msra' } bias_filler { type: 'gaussian' } }";
  const std::string net = StrCat(
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 8 dim: 20 dim: "
      "20 } } } layer { name: 'c1' type: 'Convolution' bottom: 'x' top: 'c1' convolution_param { "
      "num_output: 16 kernel_size: 3 pad: 1 bias_term: false",
      filler,
      "} layer { name: 'bn1' type: 'BatchNorm' bottom: 'c1' top: 'c1' } layer { name: 's1' type: "
      "'Scale' bottom: 'c1' top: 'c1' scale_param { bias_term: true filler { type: 'gaussian' std: "
      "2 } bias_filler { type: 'gaussian' } } } layer { name: 'r1' type: 'ReLU' bottom: 'c1' top: "
      "'c1' } layer { name: 'c2' type: 'Convolution' bottom: 'c1' top: 'c2' convolution_param { "
      "num_output: 16 kernel_size: 3 pad: 1 group: 4",
      filler,
      "} layer { name: 's2' type: 'Scale' bottom: 'c2' top: 'c2' scale_param { filler { type: "
      "'gaussian' std: 2 } } } layer { name: 'sum' type: 'Eltwise' bottom: 'c2' bottom: 'c1' top: "
      "'y' }");
  const auto run = [&](Precision precision, std::vector<size_t> fused, bool fixed = false) {
    AskAnew();
    const auto plan = PlanOn(net, TEST, {.precision = precision});
    EXPECT_EQ(LayerOf(*plan, "c1").fusion.followers.size(), fused[0]);
    EXPECT_EQ(LayerOf(*plan, "c2").fusion.followers.size(), fused[1]);
    const std::shared_ptr<Weights> weights = Weights::Make(*plan, 3);
    for (size_t s = 0; s < plan->parameters.size(); ++s) {
      // Stored statistics as after some training: mean, variance, and their divisor.
      const ParameterSlot& slot = plan->parameters[s];
      if (!slot.statistic) continue;
      float value = 2.5F;
      for (float& x : weights->blob(s).span<float>()) x = slot.index == 2 ? 4 : (value += 0.25F);
    }
    Session session(plan, weights, GpuContext(3));
    if (fixed) session.FixWeights();
    FillInput(&session, "x", 1);
    session.Forward();
    session.Forward();
    const HostView view(session, session.Data("y"));
    return std::vector<float>(view->data<float>(), view->data<float>() + view->count());
  };
  FakeRules().refuse = [](const auto&) { return "not today"; };
  const std::vector<float> native = run(FP32, {0, 0});
  FakeRules().refuse = {};
  for (const bool fixed : {false, true}) {
    EXPECT_LT(Distance(native, run(FP32, {3, 2}, fixed)), 1e-5);
    EXPECT_LT(Distance(native, run(BF16, {3, 2}, fixed)), 0.02);
  }
}

// Weights that were packed before they were fixed may be outdated.
TEST_F(CudnnImplementations, FoldTheWeightsThatWereFixed) {
  const auto plan = PlanOn(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 9 dim: 9 } } }
layer { name: "c" type: "Convolution" bottom: "x" top: "c"
  convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "msra" } } }
layer { name: "s" type: "Scale" bottom: "c" top: "y" scale_param { filler { value: 2 } } }
)",
                           TEST);
  ASSERT_EQ(LayerOf(*plan, "c").fusion.followers.size(), 1U);
  const std::shared_ptr<Weights> weights = Weights::Make(*plan, 3);
  Session session(plan, weights, GpuContext(3));
  FillInput(&session, "x", 1);
  session.Forward();
  const std::vector<float> before = ValuesOf(session.Data("y"));
  for (size_t s = 0; s < plan->parameters.size(); ++s) {
    for (float& x : weights->blob(s).span<float>()) x *= 2;
  }
  session.TakeWeights();
  session.FixWeights();
  for (int pass = 0; pass < 3; ++pass) {
    session.Forward();
    const std::vector<float> y = ValuesOf(session.Data("y"));
    for (size_t i = 0; i < y.size(); ++i) EXPECT_FLOAT_EQ(y[i], 4 * before[i]);
  }
}

// Captured graphs run cuDNN each time, on the values of that moment.
TEST_F(CudnnImplementations, AreLaunchedAgainWithTheirPass) {
  const auto plan = PlanOn(kNet, TRAIN);
  const auto run = [&](QueueTrace* trace) {
    Session session(plan, Weights::Make(*plan, 3), EmulatedGpuContext(trace, 3));
    const std::vector<float> labels{0, 3};
    session.Write(session.MutableData("label"), labels.data());
    FakeCounts().runs.clear();
    std::vector<float> learnt;
    constexpr int kPasses = 4;
    for (int pass = 0; pass < kPasses; ++pass) {
      FillInput(&session, "x", static_cast<uint64_t>(pass) + 1);
      learnt.push_back(static_cast<float>(session.Forward()));
      session.ZeroParameterGradients();
      session.Backward();
      const std::vector<float> gradient = ValuesOf(session.ParameterGradient(0));
      learnt.insert(learnt.end(), gradient.begin(), gradient.end());
    }
    EXPECT_EQ(FakeCounts().runs[7], kPasses * (3 + 3 + 2));
    EXPECT_EQ(session.WhyNoGraph().empty(), !trace->no_graphs) << session.WhyNoGraph();
    return learnt;
  };
  QueueTrace kept, single{.no_graphs = true};
  EXPECT_EQ(run(&kept), run(&single));
  EXPECT_GT(kept.replays, 0);
}

// Layers planned with fusion run without it if cuDNN lacks it for other shapes.
TEST_F(CudnnImplementations, OtherShapesNeedNoFusion) {
  const std::string net = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 3 dim: 8 dim: 12 dim: 10 } } }
layer { name: "c1" type: "Convolution" bottom: "x" top: "c1"
  convolution_param { num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } }
layer { name: "s1" type: "Scale" bottom: "c1" top: "s1"
  scale_param { bias_term: true filler { type: "gaussian" std: 2 } bias_filler { value: 0.5 } } }
layer { name: "sum" type: "Eltwise" bottom: "s1" bottom: "x" top: "sum" }
layer { name: "r1" type: "ReLU" bottom: "sum" top: "y" relu_param { negative_slope: 0.25 } }
)";
  const auto nothing_after_sums = [](const std::vector<std::string>& operations) {
    return operations.size() > 1 ? "nothing after sums" : "";
  };
  for (const Precision precision : {FP32, TF32, BF16}) {
    AskAnew();
    FakeRules().refuse = {};
    const auto plan = PlanOn(net, TEST, {.precision = precision});
    ASSERT_EQ(LayerOf(*plan, "c1").fusion.followers.size(), 3U);
    Session session(plan, Weights::Make(*plan, 3), GpuContext(3));
    const auto run = [&](int64_t batch) {
      session.Reshape("x", {batch, 8, 12, 10});
      FillInput(&session, "x", 1);
      session.Forward();
      return ValuesOf(session.Data("y"));
    };
    const std::vector<float> fused = run(2);
    run(3);
    FakeRules().refuse = nothing_after_sums;
    FakeCounts().runs.clear();
    const std::vector<float> unfused = run(1);
    EXPECT_EQ(FakeCounts().runs[7], 1);
    const auto same = std::span(fused).first(unfused.size());
    EXPECT_LT(Distance({same.begin(), same.end()}, unfused), precision == BF16 ? 0.02 : 1e-5);
  }
}

// Also a plan in which nothing can be fused.
TEST_F(CudnnImplementations, OwnCodeFusesWhereCudnnDoesNot) {
  FakeRules().refuse = [](const auto&) { return "not today"; };
  const double native = RunNet(PlanOn(kNet, TEST)).loss;
  FakeRules().refuse = [](const std::vector<std::string>& operations) {
    return operations.size() > 1 ? "nothing after sums" : "";
  };
  for (const Precision precision : {FP32, BF16}) {
    AskAnew();
    const auto plan = PlanOn(kNet, TEST, {.precision = precision});
    EXPECT_NE(LayerOf(*plan, "conv2").implementation->name.find("unfused"), std::string::npos);
    EXPECT_EQ(LayerOf(*plan, "conv2").fusion.layers.size(), 2U);
    EXPECT_NEAR(RunNet(plan).loss, native, (precision == FP32 ? 1e-5 : 0.03) * native);
  }
}

TEST_F(CudnnImplementations, SayWhyTheyDoNotFuse) {
  FakeRules().refuse = [](const std::vector<std::string>& operations) {
    const auto adds = std::ranges::count(operations, "add");
    return adds > 1 ? "two sums are one too many" : "";
  };
  const auto plan = PlanOn(kNet, TEST);
  EXPECT_TRUE(LayerOf(*plan, "conv2").fusion.layers.empty());
  const std::string reason = ReasonOf(*plan, "conv2", "cudnn with sum");
  EXPECT_NE(reason.find("two sums are one too many"), std::string::npos) << reason;
  EXPECT_NE(reason.find("GRAPH_PATTERN"), std::string::npos) << reason;
  RunNet(plan);
}

}  // namespace
}  // namespace crema::test
