// Tolerance of recorded runs.
#include "inference/recording.h"

#include <gtest/gtest.h>

#include "crema.pb.h"
#include "inference/crema_file.h"
#include "inference/region_head.h"
#include "support/error_text.h"
#include "support/region_net.h"
#include "support/serving_nets.h"

namespace crema {
namespace {

NetParameter NetOf(const std::string& text) { return ParseNet(text, "net.prototxt").net; }

TEST(Recording, ToleranceGoesByTheCoarsestPrecision) {
  const std::string x = "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { } } }\n";
  const std::string relu = "layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'y' ";
  EXPECT_EQ(RecordedTolerance(NetOf(x + relu + "}")), 1e-3);
  EXPECT_EQ(RecordedTolerance(NetOf(x + relu + "precision: FP32 }")), 1e-3);
  EXPECT_EQ(RecordedTolerance(NetOf(x + relu + "precision: BF16 }")), 0.05);
  EXPECT_EQ(RecordedTolerance(NetOf("precision: BF16\n" + x + relu + "}")), 0.05);
  EXPECT_EQ(RecordedTolerance(NetOf("precision: FP16\n" + x + relu + "precision: BF16 }")), 0.15);
}

TEST(Recording, IsOfOneSampleWhereThereMayBeAny) {
  const RecordedRun run = RecordRun(test::ModelOf(test::kSmallNet));
  ASSERT_EQ(run.inputs.size(), 1U);
  EXPECT_EQ(run.inputs[0].shape(), Shape({1, 3, 12, 12}));
  ASSERT_EQ(run.outputs.size(), 1U);
  EXPECT_EQ(run.outputs[0].shape(), Shape({1, 10}));
  float largest = 0;
  for (const float value : run.inputs[0].view().span<float>()) largest = std::max(largest, value);
  EXPECT_GT(largest, 0.9F);
}

// Words are whole numbers: random values would be refused.
TEST(Recording, IsOfZerosWhereTheNetTakesNothingElse) {
  const RecordedRun run = RecordRun(test::ModelOf(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "e" type: "Embed" bottom: "x" top: "e" embed_param { input_dim: 5 num_output: 4
  bias_term: false weight_filler { type: "gaussian" std: 1 } } }
)"));
  for (const float value : run.inputs[0].view().span<float>()) EXPECT_EQ(value, 0);
}

TEST(Recording, IsOfScalars) {
  const RecordedRun run = RecordRun(test::ModelOf(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { } } }
layer { name: "y" type: "Power" bottom: "x" top: "y" power_param { scale: 2 } }
)"));
  ASSERT_EQ(run.inputs.size(), 1U);
  EXPECT_EQ(run.inputs[0].shape(), Shape());
  EXPECT_EQ(run.outputs[0].view().span<float>()[0], 2 * run.inputs[0].view().span<float>()[0]);
}

// Other processors may choose among equal scores in another order.
TEST(Recording, RegionsMayHaveAnotherOrder) {
  std::string text = test::kRegionNet;
  text.replace(text.find("dim: 16 dim: 16"), 15, "dim: 64 dim: 64");
  NetFile net = ParseNet(text, "net.prototxt");
  ModelCard card;
  PrepareRegionNet(&net, &card);
  const auto model = Model::Make(net, {}, card, {}, test::TestRegistry(), NullSink());
  const RecordedRun run = RecordRun(model);
  const std::span<const float> sizes = run.inputs[1].view().span<float>();
  EXPECT_EQ(std::vector<float>(sizes.begin(), sizes.end()), (std::vector<float>{64, 64, 1}));
  // Checks the run after a change of the regions.
  const auto check = [&](auto&& change) {
    Recording recording;
    std::string bytes;
    const auto store = [&](const std::string& name, const ConstTensorView& value) {
      StoredTensor tensor = Describe(name, value);
      tensor.set_offset(bytes.size());
      bytes.append(static_cast<const char*>(value.raw()), value.bytes());
      return tensor;
    };
    for (size_t i = 0; i < run.inputs.size(); ++i) {
      *recording.add_input() = store(model->inputs()[i].name, run.inputs[i].view());
    }
    for (size_t i = 0; i < run.outputs.size(); ++i) {
      Tensor output(run.outputs[i].shape(), DType::kF32);
      const std::span<float> values = output.view().span<float>();
      std::ranges::copy(run.outputs[i].view().span<float>(), values.begin());
      if (model->outputs()[i].name == "rois_output") change(values);
      *recording.add_output() = store(model->outputs()[i].name, output.view());
    }
    recording.set_tolerance(1e-3);
    return test::ErrorOf([&] { CheckRecording(model, recording, bytes, "m.crema"); });
  };
  const auto swap = [](std::span<float> rows) {
    EXPECT_EQ(rows.size(), 16U * 5);
    std::swap_ranges(rows.begin(), rows.begin() + 5, rows.end() - 5);
  };
  EXPECT_EQ(check(swap), "");
  const auto grow = [](std::span<float> rows) {
    for (float& value : rows) value *= 1.5F;
  };
  EXPECT_TRUE(test::Contains(check(grow), "output 'rois_output' differs in"));
}

}  // namespace
}  // namespace crema
