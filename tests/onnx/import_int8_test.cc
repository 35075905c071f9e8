// Models that round to bytes become int8 nets.
#include "onnx/import_int8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "math/int8_weights.h"
#include "model_builder.h"
#include "onnx/export.h"
#include "support/exported_net.h"

namespace crema {
namespace {

using test::Import;
using test::LayerTypes;
using test::ModelBuilder;
using Types = std::vector<std::string>;

constexpr int64_t kChannels = 16;

onnx::TensorProto& Bytes(ModelBuilder* builder, const std::string& name,
                         const std::vector<int64_t>& dims, const std::vector<int>& values,
                         int type = onnx::TensorProto::INT8) {
  onnx::TensorProto& tensor = builder->Ints(name, dims, {});
  tensor.set_data_type(type);
  for (const int value : values) tensor.add_int32_data(value);
  return tensor;
}

// Weights of whole numbers, of which each output has one of 127.
std::vector<int> IntegerWeights(int64_t outputs, int64_t inner) {
  std::vector<int> values;
  for (int64_t o = 0; o < outputs; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      values.push_back(i == o % inner ? 127 : static_cast<int>((o * 31 + i * 17) % 101) - 50);
    }
  }
  return values;
}

// x is rounded, convolved, and rounded after a ReLU; a second convolution gives y.
ModelBuilder TwoConvolutions(int zero, int type) {
  ModelBuilder builder;
  builder.Input("x", {1, kChannels, 4, 4}).Output("y");
  builder.Floats("step", {}, {0.02F});
  builder.Floats("step2", {}, {0.05F});
  Bytes(&builder, "zero", {}, {zero}, type);
  Bytes(&builder, "zero2", {}, {0}, onnx::TensorProto::UINT8);
  std::vector<float> steps(kChannels);
  for (size_t i = 0; i < steps.size(); ++i) steps[i] = 0.001F * static_cast<float>(i + 1);
  builder.Floats("steps", {kChannels}, steps);
  Bytes(&builder, "w8", {kChannels, kChannels, 1, 1}, IntegerWeights(kChannels, kChannels));
  builder.Node("QuantizeLinear", {"x", "step", "zero"}, {"xq"});
  builder.Node("DequantizeLinear", {"xq", "step", "zero"}, {"xd"});
  ModelBuilder::SetInt(builder.Node("DequantizeLinear", {"w8", "steps"}, {"w"}), "axis", 0);
  builder.Node("Conv", {"xd", "w"}, {"c"});
  builder.Node("Relu", {"c"}, {"r"});
  builder.Node("QuantizeLinear", {"r", "step2", "zero2"}, {"rq"});
  builder.Node("DequantizeLinear", {"rq", "step2", "zero2"}, {"rd"});
  builder.Node("Conv", {"rd", "w"}, {"y"});
  return builder;
}

std::vector<float> Ramp(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = std::sin(static_cast<float>(i) * 0.7F) * 2;
  return values;
}

void ExpectNear(const std::vector<float>& got, const std::vector<float>& wanted, float tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], tolerance) << i;
}

TEST(OnnxInt8, BecomesRangesOfLayers) {
  const ImportedNet imported = Import(TwoConvolutions(0, onnx::TensorProto::INT8));
  EXPECT_EQ(LayerTypes(imported), (Types{"Convolution", "ReLU", "Convolution"}));
  EXPECT_EQ(imported.net.precision(), INT8);
  const LayerParameter &input = imported.net.layer(0), &first = imported.net.layer(1),
                       &relu = imported.net.layer(2), &second = imported.net.layer(3);
  EXPECT_FLOAT_EQ(input.int8().top(0).max(), 127 * 0.02F);
  EXPECT_FALSE(first.int8().bottom(0).non_negative());
  EXPECT_FLOAT_EQ(relu.int8().top(0).max(), 255 * 0.05F);
  EXPECT_TRUE(relu.int8().top(0).non_negative());
  EXPECT_TRUE(second.int8().bottom(0).non_negative());
}

TEST(OnnxInt8, ComputesLikeTheRoundingLayers) {
  const ModelBuilder builder = TwoConvolutions(0, onnx::TensorProto::INT8);
  const ImportedNet floats = Import(builder, {.int8 = false});
  EXPECT_FALSE(floats.net.has_precision());
  const std::map<std::string, test::ShapedValues> inputs = {
      {"x", {Shape({1, kChannels, 4, 4}), Ramp(kChannels * 16)}}};
  const auto wanted = test::Run(floats, inputs);
  const auto got = test::Run(Import(builder), inputs);
  // The plan may leave out rounding where bytes are not faster: half a step of the blob between the
  // convolutions, times its weights.
  ExpectNear(got.at("y").values, wanted.at("y").values, 0.2F);
}

TEST(OnnxInt8, TakesZeroPointsInTheMiddleAndAtTheEnd) {
  const ImportedNet middle = Import(TwoConvolutions(128, onnx::TensorProto::UINT8));
  EXPECT_EQ(middle.net.precision(), INT8);
  EXPECT_FALSE(middle.net.layer(1).int8().bottom(0).non_negative());
  const ImportedNet end = Import(TwoConvolutions(-128, onnx::TensorProto::INT8));
  EXPECT_TRUE(end.net.layer(1).int8().bottom(0).non_negative());
}

TEST(OnnxInt8, ComputesOnBytesBetweenProducts) {
  // conv -> rounded -> ReLU -> rounded -> sum with the rounded input -> rounded -> conv
  ModelBuilder builder = TwoConvolutions(0, onnx::TensorProto::INT8);
  onnx::GraphProto& graph = builder.graph();
  graph.mutable_node(4)->set_input(0, "cd");
  graph.mutable_node(7)->set_input(0, "sd");
  const auto round = [&](const std::string& from, const std::string& to, const std::string& step) {
    builder.Node("QuantizeLinear", {from, step, "zero"}, {to + "q"});
    builder.Node("DequantizeLinear", {to + "q", step, "zero"}, {to});
  };
  builder.Floats("step3", {}, {0.1F});
  round("c", "cd", "step3");
  builder.Node("Add", {"xd", "rd"}, {"s"});
  round("s", "sd", "step3");
  const ImportedNet imported = Import(builder);
  EXPECT_EQ(LayerTypes(imported), (Types{"Convolution", "ReLU", "Eltwise", "Convolution"}));
  for (int i = 1; i < imported.net.layer_size(); ++i) {
    const LayerParameter& layer = imported.net.layer(i);
    EXPECT_EQ(layer.int8().bottom_size(), layer.bottom_size()) << layer.name();
    EXPECT_EQ(layer.int8().top_size(), i + 1 < imported.net.layer_size() ? 1 : 0) << layer.name();
  }
  const std::map<std::string, test::ShapedValues> inputs = {
      {"x", {Shape({1, kChannels, 4, 4}), Ramp(kChannels * 16)}}};
  const auto wanted = test::Run(Import(builder, {.int8 = false}), inputs);
  ExpectNear(test::Run(imported, inputs).at("y").values, wanted.at("y").values, 0.3F);
}

TEST(OnnxInt8, CutsNegativeNumbersByAReLU) {
  ModelBuilder builder = TwoConvolutions(0, onnx::TensorProto::INT8);
  // Without the Relu: rounding to bytes without a sign does its work.
  builder.graph().mutable_node(4)->set_op_type("Identity");
  const ImportedNet imported = Import(builder);
  EXPECT_EQ(LayerTypes(imported), (Types{"Convolution", "ReLU", "Convolution"}));
  const std::map<std::string, test::ShapedValues> inputs = {
      {"x", {Shape({1, kChannels, 4, 4}), Ramp(kChannels * 16)}}};
  const auto wanted = test::Run(Import(builder, {.int8 = false}), inputs);
  ExpectNear(test::Run(imported, inputs).at("y").values, wanted.at("y").values, 0.2F);
}

TEST(OnnxInt8, LeavesOtherZeroPointsAsTheyAre) {
  const ImportedNet imported = Import(TwoConvolutions(100, onnx::TensorProto::UINT8));
  EXPECT_FALSE(imported.net.layer(1).type() == "Convolution");
  for (const LayerParameter& layer : imported.net.layer()) {
    if (layer.name() != "n_c" && layer.name() != "n_y") continue;
    EXPECT_EQ(layer.int8().bottom_size(), layer.name() == "n_y" ? 1 : 0);
  }
}

TEST(OnnxInt8, LeavesProductsOfOtherWeightsAsTheyAre) {
  ModelBuilder builder;
  builder.Input("x", {1, 4}).Output("y");
  builder.Floats("step", {}, {0.02F});
  Bytes(&builder, "zero", {}, {0});
  builder.Floats("w", {4, 1}, {0.1234F, 0.77123F, -0.31337F, 0.4999F});
  builder.Node("QuantizeLinear", {"x", "step", "zero"}, {"q"});
  builder.Node("DequantizeLinear", {"q", "step", "zero"}, {"d"});
  builder.Node("MatMul", {"d", "w"}, {"y"});
  const ImportedNet imported = Import(builder);
  EXPECT_FALSE(imported.net.has_precision());
  const auto outputs = test::Run(imported, {{"x", {Shape({1, 4}), {0.009F, 0.011F, 9, 0}}}});
  EXPECT_NEAR(outputs.at("y").values[0], 0.02F * 0.77123F - 2.54F * 0.31337F, 1e-6);
}

TEST(OnnxInt8, ExpandsQuantizedProducts) {
  ModelBuilder builder;
  builder.Input("x", {1, 1, 1, 2}, onnx::TensorProto::UINT8).Output("y");
  builder.Floats("one", {}, {1});
  builder.Floats("half", {}, {0.5F});
  Bytes(&builder, "zero", {}, {0}, onnx::TensorProto::UINT8);
  Bytes(&builder, "wzero", {}, {0});
  Bytes(&builder, "w", {1, 1, 1, 1}, {3});
  onnx::TensorProto& bias = builder.Ints("b", {1}, {});
  bias.set_data_type(onnx::TensorProto::INT32);
  bias.add_int32_data(2);
  builder.Node("QLinearConv", {"x", "one", "zero", "w", "half", "wzero", "one", "zero", "b"},
               {"y"});
  const auto outputs = test::Run(Import(builder), {{"x", {Shape({1, 1, 1, 2}), {10, 200}}}});
  EXPECT_EQ(outputs.at("y").values, (std::vector<float>{16, 255}));
}

TEST(OnnxInt8, MultipliesByConstantBytes) {
  ModelBuilder builder;
  builder.Input("x", {1, 2}, onnx::TensorProto::UINT8).Output("y");
  Bytes(&builder, "w", {2, 2}, {1, 2, 3, 4});
  Bytes(&builder, "zero", {}, {1}, onnx::TensorProto::UINT8);
  Bytes(&builder, "wzero", {2}, {0, 1});
  builder.Node("MatMulInteger", {"x", "w", "zero", "wzero"}, {"y"});
  const ImportedNet imported = Import(builder);
  EXPECT_EQ(std::ranges::count(LayerTypes(imported), "InnerProduct"), 1);
  const auto outputs = test::Run(imported, {{"x", {Shape({1, 2}), {2, 4}}}});
  EXPECT_EQ(outputs.at("y").values, (std::vector<float>{10, 10}));
}

TEST(OnnxInt8, ComesBackAsItWasExported) {
  const auto model = test::ModelWithCard(R"(precision: INT8
      layer { name: 'x' type: 'Input' top: 'x'
              input_param { shape { dim: 1 dim: 64 dim: 16 dim: 16 } }
              int8 { top { max: 2.55 non_negative: true } } }
      layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c'
              convolution_param { num_output: 64 kernel_size: 3 pad: 1
                                  weight_filler { type: 'gaussian' std: 0.03 } }
              int8 { bottom { max: 2.55 non_negative: true } top { max: 3 } } }
      layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'r'
              int8 { bottom { max: 3 } top { max: 3 non_negative: true } } }
      layer { name: 'p' type: 'Pooling' bottom: 'r' top: 'p'
              pooling_param { pool: MAX kernel_size: 2 stride: 2 }
              int8 { bottom { max: 3 non_negative: true } top { max: 3 non_negative: true } } }
      layer { name: 'l' type: 'InnerProduct' bottom: 'p' top: 'y'
              inner_product_param { num_output: 40 weight_filler { type: 'gaussian' std: 0.1 } }
              int8 { bottom { max: 3 non_negative: true } } })");
  const test::TempDir folder;
  const std::string path = folder.File("m.onnx");
  WriteOnnx(ToOnnx(*model, {}), path, false, [](const std::string&) {});
  const ImportedNet imported = ImportOnnx(path, {});
  EXPECT_EQ(LayerTypes(imported),
            (Types{"Convolution", "ReLU", "Pooling", "Flatten", "InnerProduct"}));
  EXPECT_EQ(imported.net.precision(), INT8);
  for (int i = 1; i < imported.net.layer_size(); ++i) {
    EXPECT_EQ(imported.net.layer(i).int8().bottom_size(), 1) << imported.net.layer(i).name();
  }
  std::vector<float> x = Ramp(64 * 256);
  for (float& value : x) value = std::abs(value);
  ModelRunner runner(model);
  runner.Run({{{"x", ConstTensorView(x.data(), Shape({1, 64, 16, 16}), DType::kF32)}}});
  const ConstTensorView wanted = runner.Output("y");
  const auto got = test::Run(imported, {{"x", {Shape({1, 64, 16, 16}), x}}});
  // The file has weights in 127 steps. A processor without VNNI rounds them once more, to 63.
  ExpectNear(got.at("y").values, {wanted.data<float>(), wanted.data<float>() + wanted.count()},
             LargestInt8Weight() == 127 ? 1e-4F : 0.5F);
}

}  // namespace
}  // namespace crema
