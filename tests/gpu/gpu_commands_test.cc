// The library calls of commands, on a GPU or its emulation and on the CPU: evaluate, deploy,
// profile.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/caffemodel.h"
#include "inference/classifier.h"
#include "runtime/evaluate.h"
#include "runtime/profiler.h"
#include "support/gpu.h"
#include "support/solver_runs.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::LayersWithGpuImplementations;
using test::TempDir;

TEST(GpuCommands, EvaluateSeesEverySampleAsOnTheCpu) {
  const TempDir temp;
  test::WriteRecords(temp.File("train"), 13);
  test::WriteRecords(temp.File("test"), 7);
  const NetFile net = ParseNet(test::RegressionNet(temp.path(), 4, 3), "net.prototxt");
  const auto plan =
      test::PlanText(test::RegressionNet(temp.path(), 4, 3), TEST, {.backward = false});
  const NetParameter model = Weights::Make(*plan, 5)->Export(*plan);
  EvaluationOptions options{.threads = 1, .stages = {}};
  std::vector<float> seen;
  options.on_batch = [&](const Session& session, int64_t samples) {
    EXPECT_EQ(session.OnGpu(), options.device.is_gpu());
    seen.push_back(static_cast<float>(samples));
  };
  const Evaluation cpu = Evaluate(net, model, "m", LayersWithGpuImplementations(), options);
  options.device = test::GpuDevice();
  const Evaluation gpu = Evaluate(net, model, "m", LayersWithGpuImplementations(), options);
  EXPECT_EQ(gpu.samples, 7);
  EXPECT_EQ(seen, (std::vector<float>{3, 3, 1, 3, 3, 1}));
  EXPECT_GT(cpu.loss, 0);
  EXPECT_NEAR(cpu.loss, gpu.loss, 1e-5 * cpu.loss);
  ASSERT_EQ(cpu.outputs.size(), gpu.outputs.size());
  for (size_t i = 0; i < cpu.outputs.size(); ++i) {
    EXPECT_NEAR(cpu.outputs[i].mean, gpu.outputs[i].mean, 1e-5);
  }
}

constexpr const char* kDeploy = R"(name: "deploy"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 1 dim: 6 dim: 6 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip"
  inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
)";

TEST(GpuCommands, ClassifiesAsOnTheCpu) {
  const TempDir temp;
  const auto plan = test::PlanText(kDeploy, TEST, {.backward = false});
  WriteCaffemodel(Weights::Make(*plan, 5)->Export(*plan), temp.File("m.caffemodel"));
  Image image{.channels = 1, .height = 6, .width = 6, .pixels = {}};
  for (int i = 0; i < 36; ++i) image.pixels.push_back(static_cast<uint8_t>(i * 7));
  const auto classify = [&](const ComputeDevice& device) {
    ModelOptions options;
    options.device = device;
    const Classifier classifier(
        Model::Make(ParseNet(kDeploy, "deploy.prototxt"), {.paths = {temp.File("m.caffemodel")}},
                    {}, options, LayersWithGpuImplementations(), NullSink()),
        "");
    Classifier::Worker worker(classifier, {.scale = 1.0F / 256, .mean = {}});
    return BestFirst(worker.Scores({&image, 1}));
  };
  const std::vector<Prediction> cpu = classify({}), gpu = classify(test::GpuDevice());
  ASSERT_EQ(cpu.size(), 5U);
  ASSERT_EQ(gpu.size(), 5U);
  for (size_t i = 0; i < cpu.size(); ++i) {
    EXPECT_EQ(cpu[i].index, gpu[i].index);
    EXPECT_NEAR(cpu[i].score, gpu[i].score, 1e-5);
  }
}

TEST(GpuCommands, ProfilesEveryLayer) {
  const auto plan = test::PlanText(
      R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 6 } } }
layer { name: "a" type: "InnerProduct" bottom: "x" top: "a"
  inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "Reduction" bottom: "a" top: "loss" loss_weight: 1 })",
      TRAIN, {.device = {DeviceType::kCuda, 0}});
  Session session(plan, Weights::Make(*plan, 1), test::GpuContext(1));
  const Profile profile = ProfileSession(&session, {.iterations = 3, .warmup = 1});
  EXPECT_EQ(profile.layers.size(), 3U);
  EXPECT_EQ(profile.forward.runs.size(), 3U);
  EXPECT_EQ(profile.backward.runs.size(), 3U);
}

}  // namespace
}  // namespace crema
