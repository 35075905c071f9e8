// Every implementation against the native methods, on 500 random cases a layer type.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/memory_format.h"
#include "core/strings.h"
#include "graph/implementation.h"
#include "implementations/implementation_agreement.h"
#include "support/gpu.h"

namespace crema::test {
namespace {

constexpr int kCases = 500;
// Returns the cases that an implementation must have run at least. For AVX2 oneDNN has code for
// fewer convolutions.
int Least() { return ChannelBlock() == 8 ? 10 : 20; }

const Registry& Layers() { return LayersWithGpuImplementations(); }

// Types with GPU implementations only are tested if there is a generator: in builds without oneDNN,
// those that oneDNN implements.
bool HasCasesForGpus(const LayerType& type) {
  return Generators().contains(type.name) &&
         std::ranges::find(type.implementations, DeviceType::kCuda, &Implementation::device) !=
             type.implementations.end();
}

std::vector<std::string> TypesWithImplementations() {
  std::vector<std::string> names;
  for (const std::string& name : Layers().Names()) {
    const LayerType& type = *Layers().Find(name);
    if (!type.alias_of.empty()) continue;
    if (!ImplementationsOf(type).empty() || HasCasesForGpus(type)) names.push_back(name);
  }
  return names;
}

std::string TestName(const testing::TestParamInfo<std::string>& info) { return info.param; }

class ImplementationsTest : public testing::TestWithParam<std::string> {};

// Types whose only implementation is oneDNN's.
const std::set<std::string, std::less<>>& OneDnnOnly() {
  static const std::set<std::string, std::less<>> types{
      "Attention", "Deconvolution", "GRU", "LSTM", "MatMul", "RNN", "Softmax"};
  return types;
}

// Implementations that a type shares with another one whose parameters it cannot have, and those
// for other processors.
bool CanNeverRun(const std::string& type, const std::string& implementation) {
  if (type == "ConvolutionDepthwise" &&
      (implementation == "winograd" || implementation == "onednn, joined groups")) {
    return true;  // are for other groups
  }
  if (implementation == "winograd" && ChannelBlock() != 16) return true;
  const bool avx512 = OneDnnOnly().contains(type) && type != "Deconvolution" && type != "Softmax";
  return avx512 && implementation == "onednn" && ChannelBlock() != 16;
}

Gradients WantedOf(int number) {
  if (number % 4 == 0) return Gradients::kNone;
  return number % 4 == 1 ? Gradients::kParameters : Gradients::kAll;
}

// $CREMA_SECONDS_A_TYPE: cases beyond are left out, where a library compiles code for each.
class Patience {
 public:
  Patience() {
    if (const char* text = std::getenv("CREMA_SECONDS_A_TYPE")) seconds_ = std::atof(text);
  }
  bool IsOver() const {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin_;
    return seconds_ > 0 && spent.count() > seconds_;
  }

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double seconds_ = 0;
};

TEST_P(ImplementationsTest, AgreeWithNativeOnRandomCases) {
  const LayerType& type = *Layers().Find(GetParam());
  const auto generator = Generators().find(type.name);
  ASSERT_NE(generator, Generators().end())
      << "implementations of " << type.name
      << " need a generator of random cases in implementation_cases.cc";
  std::map<std::string, int> reached;
  int failed = 0;
  const Patience patience;
  for (int number = 0; number < kCases && failed < 5; ++number) {
    if (number >= Least() && patience.IsOver()) {
      std::printf("%s: %d of %d cases, as time was over\n", GetParam().c_str(), number, kCases);
      return;
    }
    const uint64_t seed = MixBits(HashName(type.name), static_cast<uint64_t>(number));
    Draw draw(seed);
    ImplementationCase implementation_case = generator->second(type, draw);
    implementation_case.sample.name = StrCat("case ", number, " (seed ", seed, ")");
    const std::vector<std::string> failures = CompareImplementations(
        type, implementation_case, 1 + number % 3, WantedOf(number), &reached);
    for (const std::string& failure : failures) ADD_FAILURE() << failure;
    failed += failures.empty() ? 0 : 1;
  }
  if (failed > 0) return;
  for (const ImplementationPtr& implementation : type.implementations) {
    // Those by libraries have their own tests, and TF32 is off.
    const bool own =
        implementation->name.starts_with("cuda") && !implementation->name.ends_with("tf32");
    if (!own || implementation->input_format != MemoryFormat{Layout::kNHWC}) continue;
    EXPECT_GE(reached[implementation->name], Least())
        << "implementation '" << implementation->name << "' of " << type.name;
  }
  // Without blocks, most implementations decline.
  if (ChannelBlock() == 0) GTEST_SKIP() << "this processor has neither AVX2 nor AVX-512";
  for (const std::string& implementation : ImplementationsOf(type)) {
    if (CanNeverRun(type.name, implementation)) {
      EXPECT_EQ(reached[implementation], 0)
          << "implementation '" << implementation << "' of " << type.name;
      continue;
    }
    EXPECT_GE(reached[implementation], Least())
        << "implementation '" << implementation << "' of " << type.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Builtin, ImplementationsTest,
                         testing::ValuesIn(TypesWithImplementations()), TestName);

class OffByALittle final : public ImplementationAdapter {
 public:
  explicit OffByALittle(const ImplementationPtr& own) : ImplementationAdapter(*own, own) {}
  void Forward(const Layer& layer, const ForwardArgs& args) const override {
    own().Forward(layer, args);
    args.outputs[0].data<float>()[5] += 2e-6F;
  }
};

// Without this, a tolerance that is too wide would let all implementations pass.
TEST(ImplementationAgreement, NoticesAPlantedError) {
  if (ChannelBlock() == 0) GTEST_SKIP() << "this processor has neither AVX2 nor AVX-512";
  LayerType type = *Layers().Find("Scale");
  ImplementationCase implementation_case;
  implementation_case.sample.inputs = {{.shape = {1, 2 * ChannelBlock(), 3, 3}}};
  std::map<std::string, int> reached;
  EXPECT_TRUE(
      CompareImplementations(type, implementation_case, 1, Gradients::kAll, &reached).empty());
  type.implementations[0] = std::make_shared<OffByALittle>(type.implementations[0]);
  EXPECT_EQ(CompareImplementations(type, implementation_case, 1, Gradients::kAll, &reached).size(),
            1U);
  EXPECT_EQ(reached["blocked"], 2);
}

// Types with implementations for GPUs that have no generator: the generic checker compares these
// implementations with the native methods on the samples of the type, and no test does on random
// cases.
const std::set<std::string, std::less<>>& OnSamplesOnly() {
  static const std::set<std::string, std::less<>> types{"Accuracy",
                                                        "ArgMax",
                                                        "Axpy",
                                                        "BatchReindex",
                                                        "BoxAnnotatorOHEM",
                                                        "CTCBeamSearchDecoder",
                                                        "CTCGreedyDecoder",
                                                        "CTCLoss",
                                                        "Cast",
                                                        "CenterLoss",
                                                        "CheckWhole",
                                                        "ContrastiveLoss",
                                                        "Convolution3D",
                                                        "Correlation",
                                                        "CosineSimilarity",
                                                        "Crop",
                                                        "CumSum",
                                                        "DeformableConvolution",
                                                        "DeformablePSROIPooling",
                                                        "DetectionEvaluate",
                                                        "DetectionOutput",
                                                        "Einsum",
                                                        "Embed",
                                                        "EuclideanLoss",
                                                        "Expand",
                                                        "Filter",
                                                        "FocalLoss",
                                                        "Gather",
                                                        "GridSample",
                                                        "GroupNorm",
                                                        "HingeLoss",
                                                        "Im2col",
                                                        "InfogainLoss",
                                                        "InstanceNorm",
                                                        "Interp",
                                                        "L1Loss",
                                                        "LSTMUnit",
                                                        "LabelSpecificAdd",
                                                        "LargeMarginInnerProduct",
                                                        "LayerNorm",
                                                        "LogSoftmax",
                                                        "MVN",
                                                        "MarginInnerProduct",
                                                        "Maxout",
                                                        "MultiBoxLoss",
                                                        "MultinomialLogisticLoss",
                                                        "NonMaxSuppression",
                                                        "Normalize",
                                                        "OneHot",
                                                        "PSROIAlign",
                                                        "PSROIPooling",
                                                        "Parameter",
                                                        "Permute",
                                                        "PixelsToFloat",
                                                        "Pooling3D",
                                                        "PositionEmbedding",
                                                        "Power",
                                                        "PriorBox",
                                                        "Proposal",
                                                        "RMSNorm",
                                                        "ROIAlign",
                                                        "ROIPooling",
                                                        "Reduction",
                                                        "Reorg",
                                                        "Resize",
                                                        "Reverse",
                                                        "SPP",
                                                        "SReLU",
                                                        "Scatter",
                                                        "ShuffleChannel",
                                                        "SigmoidCrossEntropyLoss",
                                                        "Silence",
                                                        "SmoothL1Loss",
                                                        "SmoothL1LossOHEM",
                                                        "SoftmaxWithLoss",
                                                        "SoftmaxWithLossOHEM",
                                                        "SpatialTransformer",
                                                        "StridedSlice",
                                                        "Threshold",
                                                        "Tile",
                                                        "TopK",
                                                        "Transpose",
                                                        "Trilu",
                                                        "TripletLoss",
                                                        "UnPooling",
                                                        "WeightedSoftmaxWithLoss",
                                                        "YoloDetectionOutput",
                                                        "Yolov3DetectionOutput"};
  return types;
}

TEST(ImplementationGenerators, LeaveOutNoTypeUnseen) {
  std::set<std::string, std::less<>> without;
  for (const std::string& name : Layers().Names()) {
    const LayerType& type = *Layers().Find(name);
    if (!type.alias_of.empty() || Generators().contains(name)) continue;
    const bool on_gpu = std::ranges::find(type.implementations, DeviceType::kCuda,
                                          &Implementation::device) != type.implementations.end();
    if (on_gpu) without.insert(name);
  }
  EXPECT_EQ(without, OnSamplesOnly()) << "add a generator to implementation_cases.cc, or, where "
                                         "samples suffice, the type to the list";
}

// The test above does not notice a type that has lost its implementations.
TEST(ImplementationGenerators, AreForTypesWithImplementations) {
  const std::vector<std::string> types = TypesWithImplementations();
  const std::vector<ImplementationPtr>& implementations =
      Layers().Find("Convolution")->implementations;
  const bool onednn =
      std::ranges::find(implementations, "onednn", &Implementation::name) != implementations.end();
  for (const auto& [name, generator] : Generators()) {
    if (!onednn && OneDnnOnly().contains(name)) continue;
    EXPECT_NE(std::ranges::find(types, name), types.end()) << name << " has no implementations";
  }
}

}  // namespace
}  // namespace crema::test
