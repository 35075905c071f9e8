// cuDNN itself judges our graphs: it can be asked about a GPU that is only described, so this
// needs the library and no GPU. Nothing is computed.
#include "cudnn/real_cudnn.h"

#include <algorithm>

#include "core/error.h"
#include "core/strings.h"
#include "math/cuda/cudnn_conv.h"
#include "math/cuda/cudnn_conv_graph.h"

namespace crema::test {
namespace {

class RealCudnn : public RealCudnnTest {
 protected:
  // Returns the reason why it has no plan; empty if it has one within the bound.
  static std::string Refusal(const CudnnConvSpec& spec) {
    try {
      const auto graph = MakeCudnnConvGraph(nullptr, spec);
      for (const bool fallback : {false, true}) {
        for (const CudnnEngine& engine : CudnnConvEngines(*graph, spec, fallback)) {
          try {
            const CudnnPlan plan(nullptr, graph, engine);
            if (plan.workspace() <= CudnnWorkspaceBound(spec)) return "";
          } catch (const Error&) {  // the next one may
          }
        }
      }
    } catch (const Error& error) {
      return error.what();
    }
    return "no engine";
  }
};

CudnnConvSpec Spec(int64_t groups, int64_t in, int64_t out, CudnnConvSpec::Axis axis) {
  CudnnConvSpec spec;
  spec.batch = 4;
  spec.groups = groups;
  spec.in_channels = in;
  spec.out_channels = out;
  spec.axes = {axis, axis};
  return spec;
}

TEST_F(RealCudnn, TakesEveryPassOfUsualConvolutions) {
  const std::vector<CudnnConvSpec> shapes{
      Spec(1, 3, 64, {224, 112, 7, 2, 3, 1}),  Spec(1, 64, 64, {56, 56, 3, 1, 1, 1}),
      Spec(1, 64, 256, {56, 56, 1, 1, 0, 1}),  Spec(1, 256, 512, {28, 14, 1, 2, 0, 1}),
      Spec(2, 96, 256, {27, 27, 5, 1, 2, 1}),  Spec(1, 512, 512, {14, 14, 3, 1, 2, 2}),
      Spec(32, 32, 32, {112, 112, 3, 1, 1, 1})};
  for (CudnnConvSpec spec : shapes) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      spec.dtype = dtype;
      for (const bool channels_last : {false, true}) {
        spec.channels_last = channels_last;
        spec.tf32 = channels_last && dtype == DType::kF32;
        for (const ConvPass pass : {ConvPass::kForward, ConvPass::kToInput, ConvPass::kToWeights}) {
          spec.pass = pass;
          EXPECT_EQ(Refusal(spec), "") << Describe(spec);
        }
      }
    }
  }
}

TEST_F(RealCudnn, TakesThreeAxesOfSpace) {
  CudnnConvSpec spec = Spec(1, 16, 32, {14, 14, 3, 1, 1, 1});
  spec.axes.push_back(spec.axes[0]);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    spec.dtype = dtype;
    for (const ConvPass pass : {ConvPass::kForward, ConvPass::kToInput, ConvPass::kToWeights}) {
      spec.pass = pass;
      EXPECT_EQ(Refusal(spec), "") << Describe(spec);
    }
  }
}

// Ranges of blobs begin at any element.
TEST_F(RealCudnn, TakesMemoryThatIsAlignedToElements) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    CudnnConvSpec spec = Spec(1, 64, 64, {56, 56, 3, 1, 1, 1});
    spec.dtype = dtype;
    spec.alignment = static_cast<int64_t>(SizeOf(dtype));
    for (const ConvPass pass : {ConvPass::kToInput, ConvPass::kToWeights, ConvPass::kForward}) {
      spec.pass = pass;
      EXPECT_EQ(Refusal(spec), "") << Describe(spec);
    }
    spec.sum = spec.bias = true;
    spec.relu = 0;
    EXPECT_EQ(Refusal(spec), "") << Describe(spec);
  }
}

TEST_F(RealCudnn, FusesBiasSumAndRelu) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    CudnnConvSpec spec = Spec(1, 64, 64, {56, 56, 3, 1, 1, 1});
    spec.dtype = dtype;
    spec.bias = true;
    EXPECT_EQ(Refusal(spec), "") << Describe(spec);
    spec.relu = 0;
    EXPECT_EQ(Refusal(spec), "") << Describe(spec);
    spec.sum = true;
    EXPECT_EQ(Refusal(spec), "") << Describe(spec);
    spec.channels_last = true;
    spec.tf32 = dtype == DType::kF32;
    EXPECT_EQ(Refusal(spec), "") << Describe(spec);
  }
}

// The first engine that cuDNN proposes.
TEST_F(RealCudnn, MultipliesOnTensorCoresInChannelsLast) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const bool fused : {false, true}) {
      CudnnConvSpec spec = Spec(1, 64, 64, {56, 56, 3, 1, 1, 1});
      spec.dtype = dtype;
      spec.channels_last = true;
      spec.sum = spec.bias = fused;
      if (fused) spec.relu = 0;
      for (const ConvPass pass : {ConvPass::kForward, ConvPass::kToInput, ConvPass::kToWeights}) {
        if (fused && pass != ConvPass::kForward) continue;
        spec.pass = pass;
        EXPECT_EQ(Refusal(spec), "") << Describe(spec);
        const auto graph = MakeCudnnConvGraph(nullptr, spec);
        const std::vector<CudnnEngine> engines = CudnnConvEngines(*graph, spec, false);
        ASSERT_FALSE(engines.empty()) << Describe(spec);
        EXPECT_TRUE(engines[0].Has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE)) << Describe(spec);
      }
    }
  }
}

// Why implementations in NCHW are charged for it: their workspaces have room for input and output
// once more.
TEST_F(RealCudnn, TransposesNchwForTensorCores) {
  CudnnConvSpec spec = Spec(1, 64, 64, {56, 56, 3, 1, 1, 1});
  const auto workspace = [&] {
    const auto graph = MakeCudnnConvGraph(nullptr, spec);
    return CudnnPlan(nullptr, graph, CudnnConvEngines(*graph, spec, false).at(0)).workspace();
  };
  spec.tf32 = true;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    spec.dtype = dtype;
    const int64_t blobs = static_cast<int64_t>(SizeOf(dtype)) * (spec.InCount() + spec.OutCount());
    for (const ConvPass pass : {ConvPass::kForward, ConvPass::kToInput, ConvPass::kToWeights}) {
      spec.pass = pass;
      spec.channels_last = false;
      // In f32 the forward pass may convert one of the two.
      const bool one = dtype == DType::kF32 && pass == ConvPass::kForward;
      EXPECT_GE(workspace(), one ? blobs / 2 : blobs) << Describe(spec);
      spec.channels_last = true;
      EXPECT_LT(workspace(), blobs / 10) << Describe(spec);
    }
  }
}

TEST_F(RealCudnn, RefusesWithWords) {
  CudnnConvSpec spec = Spec(1, 64, 64, {56, 57, 3, 1, 1, 1});  // one more than there is
  const std::string reason = Refusal(spec);
  EXPECT_NE(reason, "");
  EXPECT_NE(reason, "no engine");
}

}  // namespace
}  // namespace crema::test
