// Tolerance of recorded runs.
#include "inference/recording.h"

#include <gtest/gtest.h>

#include "crema.pb.h"
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

}  // namespace
}  // namespace crema
