// Implementations of GPUs in TF32, on a GPU or its stand-in, against those in single precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/gemm.h"
#include "runtime/gpu.h"
#include "support/gpu.h"
#include "support/layer_run.h"
#include "support/net.h"

namespace crema::test {
namespace {

// Error of an element, relative to the largest: a sum of products with errors up to 2^-10.
constexpr double kTf32Tolerance = 0x1p-7;

const Implementation* SameInTf32(const LayerType& type, const Implementation& implementation) {
  const auto found =
      std::ranges::find(type.implementations, implementation.name + " tf32", &Implementation::name);
  return found == type.implementations.end() ? nullptr : found->get();
}

// The largest difference, relative to the largest value.
double Distance(const std::vector<Values>& a, const std::vector<Values>& b) {
  double difference = 0, size = 1e-3;
  for (size_t k = 0; k < a.size(); ++k) {
    for (size_t i = 0; i < a[k].size(); ++i) {
      if (std::isnan(a[k][i]) && std::isnan(b[k][i])) continue;
      difference = std::max(difference, std::abs(a[k][i] - b[k][i]));
      size = std::max(size, std::abs(a[k][i]));
    }
  }
  return difference / size;
}

// Returns the distance of the outputs; gradients are compared too.
double CompareOnSample(const LayerType& type, const LayerSample& sample,
                       const Implementation& implementation, const Implementation& rounding) {
  SCOPED_TRACE(type.name + " " + sample.name + " " + rounding.name);
  const LayerCase layer_case(type, sample, DType::kF32);
  const CaseValues values = DrawValues(layer_case);
  RunOptions options;
  options.backward = sample.gradient;
  options.implementation = &implementation;
  const RunResult single = RunLayer(layer_case, values, options);
  options.implementation = &rounding;
  const RunResult rounded = RunLayer(layer_case, values, options);
  EXPECT_EQ(rounded.failures, std::vector<std::string>{});
  const double outputs = Distance(single.outputs, rounded.outputs);
  EXPECT_LT(outputs, kTf32Tolerance);
  EXPECT_LT(Distance(single.input_grads, rounded.input_grads), kTf32Tolerance);
  EXPECT_LT(Distance(single.parameter_grads, rounded.parameter_grads), kTf32Tolerance);
  return outputs;
}

bool Supports(const Implementation& implementation, const LayerCase& layer_case,
              Precision precision) {
  return implementation
      .Supports({.layer = layer_case.layer(),
                 .context = layer_case.infer_context(),
                 .info = layer_case.info(),
                 .backward = layer_case.sample().gradient,
                 .to_input = layer_case.sample().gradient,
                 .precision = precision})
      .yes;
}

bool HasTf32(const LayerType& type) {
  return std::ranges::any_of(type.implementations, [&](const ImplementationPtr& implementation) {
    return SameInTf32(type, *implementation) != nullptr;
  });
}

std::vector<std::string> TypesWithTf32() {
  std::vector<std::string> names;
  for (const std::string& name : LayersWithGpuImplementations().Names()) {
    if (HasTf32(*LayersWithGpuImplementations().Find(name))) names.push_back(name);
  }
  return names;
}

// Returns the largest distance of an output on all samples.
double CompareOnSamples(const LayerType& type, const Implementation& implementation,
                        const Implementation& rounding) {
  double most = 0;
  for (const LayerSample& sample : type.samples) {
    const LayerCase layer_case(type, sample, DType::kF32);
    EXPECT_FALSE(Supports(rounding, layer_case, FP32)) << sample.name;
    EXPECT_FALSE(Supports(rounding, layer_case, BF16)) << sample.name;
    // A library may have nothing that does not round.
    if (!Supports(rounding, layer_case, TF32) || !Supports(implementation, layer_case, FP32))
      continue;
    most = std::max(most, CompareOnSample(type, sample, implementation, rounding));
  }
  return most;
}

class Tf32Types : public testing::TestWithParam<std::string> {};

TEST_P(Tf32Types, DifferFromSinglePrecisionByTheirRoundingOnly) {
  const LayerType& type = *LayersWithGpuImplementations().Find(GetParam());
  double most = 0;
  for (const ImplementationPtr& implementation : type.implementations) {
    const Implementation* rounding = SameInTf32(type, *implementation);
    if (implementation->device != DeviceType::kCuda || rounding == nullptr) continue;
    most = std::max(most, CompareOnSamples(type, *implementation, *rounding));
  }
  // The stand-in rounds wherever it may, but depthwise filters are not multiplied as matrices.
  // Libraries need not round, and do not for a few numbers.
  if (GpuCount() > 0 || type.name.find("epthwise") != std::string::npos) return;
  EXPECT_GT(most, 0x1p-20) << "does not round";
}

std::string TypeName(const testing::TestParamInfo<std::string>& info) { return info.param; }

INSTANTIATE_TEST_SUITE_P(Builtin, Tf32Types, testing::ValuesIn(TypesWithTf32()), TypeName);

TEST(Tf32Implementations, AreThereForMatrixProducts) {
  const std::vector<std::string> types = TypesWithTf32();
  for (const char* name : {"Attention", "Convolution", "Deconvolution", "GRU", "InnerProduct",
                           "LSTM", "MatMul", "RNN"}) {
    EXPECT_NE(std::ranges::find(types, name), types.end()) << name;
  }
}

class RoundingForward final : public ImplementationAdapter {
 public:
  explicit RoundingForward(const ImplementationPtr& own) : ImplementationAdapter(*own, own) {}
  void Forward(const Layer& layer, const ForwardArgs& args) const override {
    const Tf32Scope scope(BoundQueue(args.context));
    own().Forward(layer, args);
  }
};

// LayerTraits::multiplies_matrices. The opposite is above.
TEST(Tf32Implementations, ExistForAllTypesThatMultiplyMatrices) {
  if (GpuCount() > 0) GTEST_SKIP() << "the stand-in of a GPU shows what rounds";
  int compared = 0;
  for (const std::string& name : LayersWithGpuImplementations().Names()) {
    const LayerType& type = *LayersWithGpuImplementations().Find(name);
    if (type.traits.multiplies_matrices) continue;
    const auto row = std::ranges::find(type.implementations, "cuda", &Implementation::name);
    if (row == type.implementations.end()) continue;
    const RoundingForward rounding(*row);
    for (const LayerSample& sample : type.samples) {
      if (!Supports(**row, LayerCase(type, sample, DType::kF32), FP32)) continue;
      EXPECT_EQ(CompareOnSample(type, sample, **row, rounding), 0)
          << name << " multiplies matrices: set its LayerTraits::multiplies_matrices";
      ++compared;
    }
  }
  EXPECT_GE(compared, 200);
}

TEST(Tf32Implementations, RoundLargeProducts) {
  const LayerType& type = *LayersWithGpuImplementations().Find("InnerProduct");
  LayerSample sample;
  sample.prototxt = "inner_product_param { num_output: 256 }";
  sample.inputs = {{.shape = {128, 256}}};
  int compared = 0;
  for (const ImplementationPtr& implementation : type.implementations) {
    const Implementation* rounding = SameInTf32(type, *implementation);
    const LayerCase layer_case(type, sample, DType::kF32);
    if (implementation->device != DeviceType::kCuda || rounding == nullptr) continue;
    if (!Supports(*rounding, layer_case, TF32)) continue;
    EXPECT_GT(CompareOnSample(type, sample, *implementation, *rounding), 0x1p-20) << rounding->name;
    ++compared;
  }
  EXPECT_GE(compared, 1);
}

TEST(Tf32Implementations, AreTakenWhereALayerAsksForThem) {
  const std::string ip =
      R"(layer { name: "NAME" type: "InnerProduct" bottom: "x" top: "NAME" precision: WISH
           inner_product_param { num_output: 3 } })";
  std::string text =
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 5 } } }";
  for (const std::string wish : {"FP32", "TF32"}) {
    std::string layer = ip;
    for (const std::string place : {"NAME", "NAME", "WISH"}) {
      layer.replace(layer.find(place), 4, wish);
    }
    text += layer;
  }
  const auto plan = PlanText("precision: TF32 " + text, TEST,
                             {.device = {DeviceType::kCuda, 0}, .backward = false});
  for (const PlannedLayer& layer : plan->layers) {
    if (layer.type->name != "InnerProduct") continue;
    const bool rounds = layer.implementation->name.ends_with(" tf32");
    EXPECT_EQ(rounds, layer.layer->param().name() == "TF32") << layer.implementation->name;
  }
}

}  // namespace
}  // namespace crema::test
