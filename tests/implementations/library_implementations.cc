// Implementations by cuDNN and cuBLASLt, with stand-ins for both: wrong descriptors, strides,
// transposes, factors and epilogues give wrong numbers. On a machine with a GPU,
// implementations_test runs them on it.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "implementations/cublas_lt_stand_in.h"
#include "implementations/cudnn_stand_in.h"
#include "implementations/implementation_agreement.h"
#include "math/cuda/cuda_device.h"
#include "math/cuda/emulation.h"
#include "support/gpu.h"
#include "support/layer_run.h"
#include "support/net.h"

namespace crema::test {
namespace {

bool IsByLibrary(const Implementation& implementation) {
  return implementation.name.starts_with("cudnn") || implementation.name.starts_with("cublaslt");
}

const Implementation& ImplementationOf(const LayerType& type, const std::string& name) {
  return **std::ranges::find(type.implementations, name, &Implementation::name);
}

class LibraryImplementations : public testing::Test {
 protected:
  void SetUp() override {
    if (CudaDeviceCount() > 0) GTEST_SKIP() << "the stand-ins compute on the CPU";
  }
  void TearDown() override {
    EXPECT_EQ(LivingCudnnObjects(), 0);
    EXPECT_EQ(LivingCublasLtObjects(), 0);
    LetCublasLtFindAlgorithms(true);
  }

  const CudnnStandIn cudnn_{CudnnOfTests()};
  const CublasLtStandIn cublas_lt_{CublasLtOfTests()};
};

class RandomCases : public LibraryImplementations,
                    public testing::WithParamInterface<const char*> {};

TEST_P(RandomCases, AgreeWithNative) {
  LayerType type = *LayersWithGpuImplementations().Find(GetParam());
  std::erase_if(type.implementations, [](const ImplementationPtr& implementation) {
    return !IsByLibrary(*implementation);
  });
  ASSERT_FALSE(type.implementations.empty());
  std::map<std::string, int> reached;
  for (int number = 0; number < 300; ++number) {
    Draw draw(MixBits(HashName(type.name), static_cast<uint64_t>(1000 + number)));
    ImplementationCase implementation_case = Generators().find(type.name)->second(type, draw);
    implementation_case.sample.name = StrCat("case ", number);
    std::string& text = implementation_case.sample.prototxt;
    // cuBLASLt's ReLU has no slope.
    const size_t slope = text.find("negative_slope: 0.5");
    if (slope != std::string::npos) text.replace(slope, 19, "negative_slope: 0");
    const Gradients wanted = number % 3 == 0 ? Gradients::kNone : Gradients::kAll;
    for (const std::string& failure :
         CompareImplementations(type, implementation_case, 1, wanted, &reached)) {
      ADD_FAILURE() << failure;
    }
    if (HasFailure()) return;
  }
  const bool products = type.name == std::string("InnerProduct");
  EXPECT_GE(reached[products ? "cublaslt" : "cudnn"], 50);
}

INSTANTIATE_TEST_SUITE_P(LibraryImplementations, RandomCases,
                         testing::Values("InnerProduct", "LRN", "Pooling", "Softmax"),
                         [](const auto& type) { return std::string(type.param); });

struct Question {
  const char* type;
  std::string prototxt;
  std::vector<int64_t> shape;
  std::string reason;  // a part of it; empty: the implementation says yes
  bool backward = false;
  int outputs = 1;
  DType dtype = DType::kF32;
};

std::string ReasonOf(const Question& question) {
  const LayerType& type = *LayersWithGpuImplementations().Find(question.type);
  LayerSample sample;
  sample.prototxt = question.prototxt;
  sample.inputs = {{.shape = question.shape}};
  sample.outputs = question.outputs;
  const LayerCase layer_case(type, sample, question.dtype);
  const std::string implementation =
      question.type == std::string("InnerProduct") ? "cublaslt" : "cudnn";
  const Support support = ImplementationOf(type, implementation)
                              .Supports({.layer = layer_case.layer(),
                                         .context = layer_case.infer_context(),
                                         .info = layer_case.info(),
                                         .backward = question.backward,
                                         .to_input = question.backward});
  return support.yes ? "" : support.reason;
}

std::vector<Question> Questions() {
  const std::string max = "pooling_param { kernel_size: 3 stride: 2 }";
  const std::string mean = "pooling_param { pool: AVE kernel_size: 3 stride: 2 ";
  const std::string ip = "inner_product_param { num_output: 5 }";
  return {
      {"Pooling", max, {2, 3, 7, 9}, ""},
      {"Pooling", max, {2, 3, 7, 9}, "which of equal maxima", true},
      {"Pooling", max, {2, 3, 7, 9}, "no positions", false, 2},
      {"Pooling", max, {2, 3, 8, 9}, "beyond the padding"},
      {"Pooling", max, {0, 3, 7, 9}, "elements"},
      {"Pooling", max, {3, 7, 9}, "two spatial axes"},
      {"Pooling", max, {2, 3, 4, 7, 9}, "two spatial axes"},
      {"Pooling", max, {2, 3, 7, 9}, "f32 and f16", false, 1, DType::kF64},
      {"Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 2 }", {1, 1, 4, 4}, "MAX and AVE"},
      {"Pooling", mean + "}", {2, 3, 7, 9}, "", true},
      {"Pooling", mean + "}", {2, 3, 7, 8}, "beyond the padding", true},
      {"Pooling", mean + "pad: 1 }", {2, 3, 5, 5}, "", true},
      {"Pooling", mean + "pad: 1 }", {2, 3, 5, 6}, "beyond the padding"},
      {"Pooling", mean + "round_mode: FLOOR }", {2, 3, 5, 6}, ""},
      {"LRN", "", {2, 7, 5, 5}, "", true},
      {"LRN", "", {2, 7}, ""},
      {"LRN", "", {0, 7, 5, 5}, ""},
      {"LRN", "lrn_param { norm_region: WITHIN_CHANNEL }", {2, 7, 5, 5}, "ACROSS_CHANNELS"},
      {"LRN", "lrn_param { local_size: 17 }", {2, 7, 5, 5}, "local_size of up to 16"},
      {"LRN", "lrn_param { k: 0 }", {2, 7, 5, 5}, "k from"},
      {"LRN", "lrn_param { beta: 0 }", {2, 7, 5, 5}, "beta from"},
      {"Softmax", "", {4, 7}, "", true},
      {"Softmax", "", {0, 7}, "elements"},
      {"Softmax", "", {4, 7}, "f32 and f16", false, 1, DType::kF64},
      {"InnerProduct", ip, {4, 7}, "", true},
      {"InnerProduct", ip, {0, 7}, "nothing to do"},
      {"InnerProduct", ip, {4, 7}, "f32, f16 and bf16", false, 1, DType::kF64},
      {"InnerProduct", ip + " fused_relu_param { }", {4, 7}, ""},
      {"InnerProduct", ip + " fused_relu_param { negative_slope: 0.1 }", {4, 7}, "no slope"},
  };
}

TEST_F(LibraryImplementations, SayWhyNot) {
  for (const Question& question : Questions()) {
    const std::string reason = ReasonOf(question);
    const bool as_expected = question.reason.empty()
                                 ? reason.empty()
                                 : reason.find(question.reason) != std::string::npos;
    EXPECT_TRUE(as_expected) << question.type << " " << question.prototxt << " says '" << reason
                             << "', expected '" << question.reason << "'";
  }
}

TEST(LibraryImplementationsAlone, SayThatThereIsNoGpu) {
  if (CudaDeviceCount() > 0) GTEST_SKIP() << "there is one";
  EXPECT_NE(ReasonOf({"Softmax", "", {4, 7}, ""}).find("cuDNN cannot be used: no"),
            std::string::npos);
  const std::string product =
      ReasonOf({"InnerProduct", "inner_product_param { num_output: 5 }", {4, 7}, ""});
  EXPECT_NE(product.find("cuBLASLt cannot be used: no"), std::string::npos) << product;
}

TEST_F(LibraryImplementations, FailWithTheWordsOfTheLibrary) {
  const LayerType& type = *LayersWithGpuImplementations().Find("Softmax");
  LayerSample sample;
  sample.inputs = {{.shape = {4, 7}}};
  const LayerCase layer_case(type, sample, DType::kF32);
  RunOptions options;
  options.implementation = &ImplementationOf(type, "cudnn");
  FailNextCudnnOperation();
  try {
    RunLayer(layer_case, DrawValues(layer_case), options);
    FAIL() << "the failure was not told";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDeviceFailure);
    EXPECT_NE(std::string(error.what())
                  .find("cudnnSoftmaxForward failed: CUDNN_STATUS_EXECUTION_FAILED; the stand-in "
                        "was told to fail"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(LibraryImplementations, ProductsWithoutAlgorithmGoByCublas) {
  const LayerType& type = *LayersWithGpuImplementations().Find("InnerProduct");
  LayerSample sample;
  sample.prototxt = "inner_product_param { num_output: 5 } fused_relu_param { }";
  sample.inputs = {{.shape = {4, 7}}};
  const LayerCase layer_case(type, sample, DType::kF32);
  const CaseValues values = DrawValues(layer_case);
  RunOptions options;
  options.implementation = &ImplementationOf(type, "cublas");
  const RunResult expected = RunLayer(layer_case, values, options);
  LetCublasLtFindAlgorithms(false);
  options.implementation = &ImplementationOf(type, "cublaslt");
  EXPECT_EQ(RunLayer(layer_case, values, options).outputs, expected.outputs);
}

// Implementations on halves pass on everything that the adapted implementation needs: state,
// scratch and gradients.
TEST_F(LibraryImplementations, DoTheSameOnHalves) {
  struct Case {
    const char *type, *implementation, *native, *prototxt;
  };
  for (const Case& c : {Case{"Pooling", "cudnn f16", "cuda f16",
                             "pooling_param { pool: AVE kernel_size: 3 stride: 2 }"},
                        Case{"InnerProduct", "cublaslt f16", "cublas f16",
                             "inner_product_param { num_output: 5 } fused_relu_param { }"}}) {
    SCOPED_TRACE(c.implementation);
    const LayerType& type = *LayersWithGpuImplementations().Find(c.type);
    LayerSample sample;
    sample.prototxt = c.prototxt;
    sample.inputs = {{.shape = {2, 3, 7, 9}}};
    const LayerCase layer_case(type, sample, DType::kF32);
    const CaseValues values = DrawValues(layer_case);
    RunOptions options;
    options.backward = true;
    options.implementation = &ImplementationOf(type, c.native);
    const RunResult native = RunLayer(layer_case, values, options);
    options.implementation = &ImplementationOf(type, c.implementation);
    const RunResult implementation = RunLayer(layer_case, values, options);
    EXPECT_EQ(implementation.failures, std::vector<std::string>{});
    // Both round sums of f32 once to 11 bits; values are below 8.
    for (size_t i = 0; i < native.outputs[0].size(); ++i) {
      EXPECT_NEAR(implementation.outputs[0][i], native.outputs[0][i], 0x1p-8);
    }
    for (size_t i = 0; i < native.input_grads[0].size(); ++i) {
      EXPECT_NEAR(implementation.input_grads[0][i], native.input_grads[0][i], 0x1p-8);
    }
  }
}

constexpr const char* kNet = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 dim: 9 dim: 9 } } }
layer { name: "norm" type: "LRN" bottom: "x" top: "norm" lrn_param { alpha: 0.5 } }
layer { name: "mean" type: "Pooling" bottom: "norm" top: "mean"
  pooling_param { pool: AVE kernel_size: 3 stride: 2 } }
layer { name: "ip" type: "InnerProduct" bottom: "mean" top: "ip"
  inner_product_param { num_output: 6 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "ip" top: "ip" }
layer { name: "ip2" type: "InnerProduct" bottom: "ip" top: "ip2"
  inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "prob" type: "Softmax" bottom: "ip2" top: "prob" }
layer { name: "loss" type: "Reduction" bottom: "prob" top: "loss" loss_weight: 1
  reduction_param { operation: SUMSQ } }
)";

std::map<std::string, std::string> ImplementationsOf(const Plan& plan) {
  std::map<std::string, std::string> implementations;
  for (const PlannedLayer& layer : plan.layers) {
    if (layer.implementation != nullptr)
      implementations[layer.layer->param().name()] = layer.implementation->name;
  }
  return implementations;
}

struct NetRun {
  std::map<std::string, std::string> implementations;
  std::vector<double> losses;   // of batches of several sizes
  std::vector<float> gradient;  // of the weights of ip
};

NetRun RunNet(Precision precision) {
  const auto plan =
      PlanText(kNet, TRAIN, {.device = {DeviceType::kCuda, 0}, .precision = precision});
  Session session(plan, Weights::Make(*plan, 3), GpuContext(3));
  NetRun run;
  run.implementations = ImplementationsOf(*plan);
  // The last ones have shapes whose passes may run as graphs.
  for (const int64_t batch : {4, 2, 4, 4, 4}) {
    session.Reshape("x", {batch, 3, 9, 9});
    FillInput(&session, "x", 5 + run.losses.size());
    run.losses.push_back(session.Forward());
    session.ZeroParameterGradients();
    session.Backward();
  }
  run.gradient = ValuesOf(session.ParameterGradient(0));
  return run;
}

// Returns losses and gradients of passes with the same shapes, which are captured and launched
// again.
std::vector<float> RunPasses(QueueTrace* trace) {
  const auto plan = PlanText(kNet, TRAIN, {.device = {DeviceType::kCuda, 0}});
  Session session(plan, Weights::Make(*plan, 3), EmulatedGpuContext(trace, 3));
  std::vector<float> learnt;
  for (uint64_t pass = 1; pass < 5; ++pass) {
    FillInput(&session, "x", pass);
    learnt.push_back(static_cast<float>(session.Forward()));
    session.ZeroParameterGradients();
    session.Backward();
    const std::vector<float> gradient = ValuesOf(session.ParameterGradient(0));
    learnt.insert(learnt.end(), gradient.begin(), gradient.end());
  }
  return learnt;
}

TEST_F(LibraryImplementations, AreLaunchedAgainWithTheirPass) {
  QueueTrace kept, single{.no_graphs = true};
  EXPECT_EQ(RunPasses(&kept), RunPasses(&single));
  EXPECT_EQ(kept.captures, 2);
  EXPECT_EQ(kept.replays, 2 * 3);
  EXPECT_EQ(single.replays, 0);
}

double LargestDifference(const NetRun& a, const NetRun& b) {
  double largest = 0;
  for (size_t i = 0; i < a.gradient.size(); ++i) {
    largest = std::max(largest, std::abs(double{a.gradient[i]} - double{b.gradient[i]}));
  }
  for (size_t i = 0; i < a.losses.size(); ++i) {
    largest = std::max(largest, std::abs(a.losses[i] - b.losses[i]));
  }
  return largest;
}

TEST(LibraryImplementationsOfNets, GiveWhatNativeImplementationsGive) {
  if (CudaDeviceCount() > 0) GTEST_SKIP() << "the stand-ins compute on the CPU";
  const NetRun native = RunNet(FP32), native_tf32 = RunNet(TF32);
  EXPECT_EQ(native.implementations.at("ip"), "cublas");
  EXPECT_EQ(native_tf32.implementations.at("ip"), "cublas tf32");
  const CudnnStandIn cudnn{CudnnOfTests()};
  const CublasLtStandIn cublas_lt{CublasLtOfTests()};
  const NetRun single = RunNet(FP32), tf32 = RunNet(TF32);
  for (const char* layer : {"norm", "mean", "prob"}) {
    EXPECT_EQ(single.implementations.at(layer), "cudnn") << layer;
    EXPECT_EQ(tf32.implementations.at(layer), "cudnn") << layer;
  }
  EXPECT_EQ(single.implementations.at("ip"), "cublaslt");
  EXPECT_EQ(tf32.implementations.at("ip2"), "cublaslt tf32");
  // Numbers are about 1: rounding of f32, and of 10 bits of mantissa.
  EXPECT_LT(LargestDifference(native, single), 2e-6);
  for (const NetRun* rounded : {&native_tf32, &tf32}) {
    EXPECT_GT(LargestDifference(native, *rounded), 1e-6);
    EXPECT_LT(LargestDifference(native, *rounded), 1e-2);
  }
  EXPECT_EQ(LivingCudnnObjects(), 0);
  EXPECT_EQ(LivingCublasLtObjects(), 0);
}

}  // namespace
}  // namespace crema::test
