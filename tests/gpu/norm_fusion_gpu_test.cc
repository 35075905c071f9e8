// Conv-BatchNorm fusion (graph/norm_fusion.h) by cuDNN itself; tests/cudnn has the same on a
// stand-in.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "core/strings.h"
#include "crema.pb.h"
#include "gpu/fused_runs.h"
#include "runtime/gpu.h"

namespace crema::test {
namespace {

std::string ConvolutionWithoutBias(const std::string& bottom, const std::string& top,
                                   const std::string& fields) {
  return StrCat("layer { name: '", top, "' type: 'Convolution' bottom: '", bottom, "' top: '", top,
                "' convolution_param { bias_term: false ", fields,
                " weight_filler { type: 'msra' } } }\n");
}

std::string Norm(const std::string& name, const std::string& blob) {
  return StrCat("layer { name: '", name, "' type: 'BatchNorm' bottom: '", blob, "' top: '", blob,
                "' }\nlayer { name: '", name, "_s' type: 'Scale' bottom: '", blob, "' top: '", blob,
                "' scale_param { bias_term: true filler { type: 'uniform' min: -2 max: 2 } "
                "bias_filler { type: 'uniform' min: -1 max: 1 } } }\nlayer { name: '",
                name, "_r' type: 'ReLU' bottom: '", blob, "' top: '", blob, "' }\n");
}

std::string NormNet() {
  return "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 8 dim: 64 dim: 56 "
         "dim: 56 } } }\n" +
         ConvolutionWithoutBias("x", "a", "num_output: 64 kernel_size: 1") + Norm("bn", "a") +
         ConvolutionWithoutBias("a", "b", "num_output: 64 kernel_size: 3 pad: 1") +
         Norm("n2", "b") +
         ConvolutionWithoutBias("b", "c", "num_output: 128 kernel_size: 1 stride: 2") +
         Norm("n3", "c") +
         "layer { name: 'loss' type: 'Reduction' bottom: 'c' top: 'loss' loss_weight: 0.0001 "
         "reduction_param { operation: SUMSQ } }\n";
}

std::shared_ptr<const Plan> PlanNormFusion(bool fuses) {
  PlanOptions options{.device = {DeviceType::kCuda, 0}, .precision = FP16};
  options.passes.fuse_batch_norm = fuses;
  return PlanText(NormNet(), TRAIN, options);
}

bool HasCudnn() {
  return std::ranges::any_of(PlanNormFusion(true)->layers, [](const PlannedLayer& layer) {
    return layer.implementation != nullptr && layer.implementation->name.starts_with("cudnn");
  });
}

Numbers RunNormFusion(bool fuses) {
  const auto plan = PlanNormFusion(fuses);
  const auto fusing =
      std::ranges::count_if(plan->layers, [](const auto& l) { return l.fusion.norm.any(); });
  // The three BatchNorms, and the convolutions around them.
  EXPECT_EQ(fusing, fuses ? 6 : 0);
  const std::shared_ptr<Weights> weights = Weights::Make(*plan, 3);
  Session session(plan, weights, GpuContext(3));
  Numbers numbers;
  for (uint64_t pass = 0; pass < 3; ++pass) {
    Draw(&session, "x", pass);
    numbers.losses.push_back(session.Forward());
    AppendGradients(&session, &numbers.gradients);
  }
  session.ReturnStatistics();
  numbers.weights = ValuesOf(*weights);
  return numbers;
}

TEST(GpuNormFusion, NetsLearnAsWithout) {
  if (GpuCount() == 0) GTEST_SKIP() << "there is no GPU";
  if (!HasCudnn()) GTEST_SKIP() << "there is no cuDNN";
  ExpectSame(RunNormFusion(false), RunNormFusion(true), 0.02, "fused");
}

}  // namespace
}  // namespace crema::test
