// Fusions of cuDNN for training; docs/development/gpu.md has the results. Without a driver only
// precompiled engines are available; those that are compiled at run time need one.
#include <string>
#include <string_view>
#include <vector>

#include "cudnn/real_cudnn.h"
#include "math/cuda/cudnn_conv.h"

namespace crema::test {
namespace {

class RealFusions : public RealCudnnTest {
 protected:
  static std::string WhyNot(const CudnnConvSpec& spec) {
    CudnnSupportCache answers;  // of the GPU that is described now
    return answers.WhyNot(spec, 0);
  }
};

CudnnConvSpec SpecOf(int64_t in, int64_t out, const CudnnConvSpec::Axis& axis) {
  CudnnConvSpec spec;
  spec.dtype = DType::kF16;
  spec.channels_last = true;
  spec.batch = 32;
  spec.in_channels = in;
  spec.out_channels = out;
  spec.axes = {axis, axis};
  return spec;
}

// All kernel shapes of ResNet-50 except the first.
std::vector<CudnnConvSpec> Shapes() {
  return {SpecOf(64, 64, {56, 56, 3, 1, 1, 1}),   SpecOf(128, 128, {56, 28, 3, 2, 1, 1}),
          SpecOf(512, 512, {7, 7, 3, 1, 1, 1}),   SpecOf(64, 256, {56, 56, 1, 1, 0, 1}),
          SpecOf(256, 64, {56, 56, 1, 1, 0, 1}),  SpecOf(256, 512, {56, 28, 1, 2, 0, 1}),
          SpecOf(512, 2048, {7, 7, 1, 1, 0, 1}),  SpecOf(2048, 512, {7, 7, 1, 1, 0, 1}),
          SpecOf(1024, 256, {14, 14, 1, 1, 0, 1})};
}

CudnnConvSpec WithStatistics(CudnnConvSpec spec) {
  spec.statistics = true;
  return spec;
}
CudnnConvSpec NormalizedWithStatistics(CudnnConvSpec spec) {
  spec.normalized = spec.statistics = true;
  return spec;
}
CudnnConvSpec NormalizedToWeights(CudnnConvSpec spec) {
  spec.pass = ConvPass::kToWeights;
  spec.normalized = true;
  return spec;
}
CudnnConvSpec ToInputWithNormGradient(CudnnConvSpec spec) {
  spec.pass = ConvPass::kToInput;
  spec.norm_gradient = true;
  return spec;
}

std::vector<CudnnConvSpec> Fusions(const CudnnConvSpec& spec) {
  return {WithStatistics(spec), NormalizedWithStatistics(spec), NormalizedToWeights(spec),
          ToInputWithNormGradient(spec)};
}

TEST_F(RealFusions, AreReadyForHalves) {
  for (const std::string_view gpu : {kHopper, kAmpere}) {
    AskAbout(gpu);
    for (const CudnnConvSpec& shape : Shapes()) {
      for (const CudnnConvSpec& spec : Fusions(shape)) {
        EXPECT_EQ(WhyNot(spec), "") << Describe(spec) << gpu;
      }
    }
  }
}

// Elsewhere cuDNN has to compile one.
TEST_F(RealFusions, WithoutStatisticsAreReadyForAmpere) {
  AskAbout(kAmpere);
  for (CudnnConvSpec spec : Shapes()) {
    spec.normalized = true;
    EXPECT_EQ(WhyNot(spec), "") << Describe(spec);
  }
}

// Also where it can compile engines. If this test fails, reconsider the decision in the docs.
TEST_F(RealFusions, BackwardFusionsAreUnsupportedForBFloat16) {
  if (TheLibrary().library.version() / 100 != 919) GTEST_SKIP() << "another cuDNN may have them";
  CudnnConvSpec spec = Shapes()[0];
  spec.dtype = DType::kBF16;
  for (const std::string_view gpu : {kHopper, kAmpere}) {
    AskAbout(gpu);
    for (const CudnnConvSpec& fusion : {NormalizedToWeights(spec), ToInputWithNormGradient(spec)}) {
      const std::string reason = WhyNot(fusion);
      EXPECT_NE(reason.find("CUDNN_DATA_HALF"), std::string::npos) << reason << gpu;
    }
  }
}

// The fake requires what precompiled engines require.
TEST_F(RealFusions, AreMissingInOtherShapes) {
  if (CudaDeviceCount() > 0) GTEST_SKIP() << "with a driver cuDNN may compile more";
  if (TheLibrary().library.version() / 100 != 919) GTEST_SKIP() << "another cuDNN may have them";
  const CudnnConvSpec shape = SpecOf(64, 64, {56, 56, 3, 1, 1, 1});
  std::vector<CudnnConvSpec> others(3, shape);
  others[0].channels_last = false;
  others[1].alignment = 8;
  others[2].groups = 2;
  for (const std::string_view gpu : {kHopper, kAmpere}) {
    AskAbout(gpu);
    for (const CudnnConvSpec& other : others) {
      for (const CudnnConvSpec& spec : Fusions(other))
        EXPECT_NE(WhyNot(spec), "") << Describe(spec);
    }
    for (const int64_t channels : {20, 12}) {
      const auto of_input = SpecOf(channels, 64, {56, 56, 3, 1, 1, 1});
      EXPECT_NE(WhyNot(WithStatistics(of_input)), "") << channels << gpu;
      EXPECT_NE(WhyNot(NormalizedWithStatistics(of_input)), "") << channels << gpu;
      EXPECT_NE(WhyNot(NormalizedToWeights(of_input)), "") << channels << gpu;
    }
  }
  AskAbout(kHopper);
  for (const int64_t channels : {20, 12}) {
    for (const CudnnConvSpec& spec : Fusions(SpecOf(64, channels, {56, 56, 3, 1, 1, 1}))) {
      EXPECT_NE(WhyNot(spec), "") << Describe(spec);
    }
  }
}

}  // namespace
}  // namespace crema::test
