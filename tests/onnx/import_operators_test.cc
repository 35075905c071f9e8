// Operators that import composes of several layers.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "model_builder.h"
#include "support/error_text.h"

namespace crema {
namespace {

using test::Contains;
using test::Import;
using test::ImportError;
using test::ModelBuilder;
using Numbers = std::vector<float>;

TEST(OnnxOperators, AddsWindowsAtTheirPlaces) {
  ModelBuilder builder(18);
  builder.Input("x", {1, 2, 2}).Output("y");
  builder.Ints("image", {1}, {3});
  builder.Ints("block", {1}, {2});
  builder.Node("Col2Im", {"x", "image", "block"}, {"y"});
  const auto outputs = test::Run(Import(builder), {{"x", {Shape({1, 2, 2}), {1, 2, 3, 4}}}});
  EXPECT_EQ(outputs.at("y").shape, Shape({1, 1, 3}));
  EXPECT_EQ(outputs.at("y").values, (Numbers{1, 5, 4}));
}

TEST(OnnxOperators, RefusesWindowsThatDoNotFitTheImage) {
  ModelBuilder builder(18);
  builder.Input("x", {1, 2, 2}).Output("y");
  builder.Ints("image", {1}, {4});
  builder.Ints("block", {1}, {2});
  builder.Node("Col2Im", {"x", "image", "block"}, {"y"});
  EXPECT_TRUE(Contains(ImportError(builder), "another number of windows"));
}

Numbers AlignedRegions(const std::string& mode) {
  ModelBuilder builder(16);
  builder.Input("x", {1, 1, 2, 2}).Output("y");
  builder.Floats("boxes", {1, 4}, {0, 0, 2, 2});
  builder.Ints("image", {1}, {0});
  onnx::NodeProto& node = builder.Node("RoiAlign", {"x", "boxes", "image"}, {"y"});
  ModelBuilder::SetInt(node, "sampling_ratio", 1);
  if (!mode.empty()) ModelBuilder::SetString(node, "coordinate_transformation_mode", mode);
  return test::Run(Import(builder), {{"x", {Shape({1, 1, 2, 2}), {1, 2, 3, 4}}}}).at("y").values;
}

TEST(OnnxOperators, AlignsRegions) {
  EXPECT_EQ(AlignedRegions(""), Numbers{2.5F});  // at (0.5, 0.5)
  EXPECT_EQ(AlignedRegions("half_pixel"), Numbers{2.5F});
  EXPECT_EQ(AlignedRegions("output_half_pixel"), Numbers{4});  // at (1, 1)
}

TEST(OnnxOperators, PoolsRegions) {
  ModelBuilder builder;
  builder.Input("x", {1, 1, 2, 4}).Output("y");
  builder.Floats("boxes", {1, 5}, {0, 0, 0, 3, 1});
  onnx::NodeProto& node = builder.Node("MaxRoiPool", {"x", "boxes"}, {"y"});
  EXPECT_TRUE(Contains(ImportError(builder), "pooled_shape that is not two sizes"));
  ModelBuilder::SetInts(node, "pooled_shape", {1, 2});
  const auto outputs =
      test::Run(Import(builder), {{"x", {Shape({1, 1, 2, 4}), {1, 2, 3, 4, 5, 6, 7, 8}}}});
  EXPECT_EQ(outputs.at("y").shape, Shape({1, 1, 1, 2}));
  EXPECT_EQ(outputs.at("y").values, (Numbers{6, 8}));
}

TEST(OnnxOperators, ConvolvesAtDisplacedPlaces) {
  ModelBuilder builder(19);
  builder.Input("x", {1, 1, 1, 3}).Input("offset", {1, 2, 1, 3}).Output("y").Output("z");
  builder.Floats("w", {1, 1, 1, 1}, {2});
  builder.Floats("b", {1}, {1});
  builder.Floats("mask", {1, 1, 1, 3}, {1, 0, 2});
  builder.Node("DeformConv", {"x", "w", "offset"}, {"y"});
  builder.Node("DeformConv", {"x", "w", "offset", "b", "mask"}, {"z"});
  const auto outputs =
      test::Run(Import(builder), {{"x", {Shape({1, 1, 1, 3}), {1, 2, 4}}},
                                  {"offset", {Shape({1, 2, 1, 3}), {0, 0, 0, 0.5F, 0.5F, 0.5F}}}});
  const Numbers y = outputs.at("y").values, z = outputs.at("z").values;
  const Numbers wanted_y = {3, 6, 4}, wanted_z = {4, 1, 9};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(y[i], wanted_y[i], 1e-5) << i;
    EXPECT_NEAR(z[i], wanted_z[i], 1e-5) << i;
  }
}

TEST(OnnxOperators, TransformsFrames) {
  ModelBuilder builder;
  builder.Input("x", {1, 4}).Output("y");
  builder.Ints("step", {}, {2});
  builder.Ints("length", {}, {2});
  builder.Node("STFT", {"x", "step", "", "length"}, {"y"});
  const auto outputs = test::Run(Import(builder), {{"x", {Shape({1, 4}), {1, 1, 3, 1}}}});
  EXPECT_EQ(outputs.at("y").shape, Shape({1, 2, 2, 2}));
  const Numbers wanted = {2, 0, 0, 0, 4, 0, 2, 0};
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(outputs.at("y").values[i], wanted[i], 1e-6) << i;
  }
}

TEST(OnnxOperators, WritesIntoCaches) {
  ModelBuilder builder(23);
  builder.Input("past", {1, 3, 1}).Input("update", {1, 2, 1}).Output("y");
  builder.Ints("at", {1}, {2});
  ModelBuilder::SetString(builder.Node("TensorScatter", {"past", "update", "at"}, {"y"}), "mode",
                          "circular");
  const auto outputs = test::Run(Import(builder), {{"past", {Shape({1, 3, 1}), {7, 8, 9}}},
                                                   {"update", {Shape({1, 2, 1}), {5, 6}}}});
  EXPECT_EQ(outputs.at("y").values, (Numbers{6, 8, 5}));
}

Numbers LinearAttention(const std::string& rule) {
  ModelBuilder builder(23);
  builder.Input("q", {1, 2, 1}).Output("y").Output("state");
  builder.Floats("k", {1, 2, 1}, {1, 2});
  builder.Floats("v", {1, 2, 1}, {1, 1});
  builder.Floats("decay", {1, 2, 1}, {0, std::log(0.5F)});
  builder.Floats("beta", {1, 2, 1}, {1, 1});
  std::vector<std::string> inputs = {"q", "k", "v"};
  if (rule == "gated") inputs.insert(inputs.end(), {"", "decay"});
  if (rule == "delta") inputs.insert(inputs.end(), {"", "", "beta"});
  onnx::NodeProto& node = builder.Node("LinearAttention", inputs, {"y", "state"});
  ModelBuilder::SetString(node, "update_rule", rule);
  ModelBuilder::SetInt(node, "q_num_heads", 1);
  ModelBuilder::SetInt(node, "kv_num_heads", 1);
  const auto outputs = test::Run(Import(builder), {{"q", {Shape({1, 2, 1}), {1, 1}}}});
  Numbers values = outputs.at("y").values;
  values.push_back(outputs.at("state").values[0]);
  return values;
}

TEST(OnnxOperators, AttendsByStates) {
  EXPECT_EQ(LinearAttention("linear"), (Numbers{1, 3, 3}));
  EXPECT_EQ(LinearAttention("gated"), (Numbers{1, 2.5F, 2.5F}));
  EXPECT_EQ(LinearAttention("delta"), (Numbers{1, -1, -1}));
}

TEST(OnnxOperators, FoldsTensorsWithoutElements) {
  ModelBuilder builder(18);
  builder.Input("x", {2, 0}).Input("z", {2}).Output("y").Output("most");
  builder.Ints("axis", {1}, {1});
  ModelBuilder::SetInt(builder.Node("ReduceSum", {"x", "axis"}, {"s"}), "keepdims", 0);
  ModelBuilder::SetInt(builder.Node("ReduceMax", {"x", "axis"}, {"most"}), "keepdims", 0);
  builder.Node("Add", {"z", "s"}, {"y"});
  const ImportedNet imported = Import(builder);
  const auto outputs = test::Run(imported, {{"z", {Shape({2}), {3, 4}}}});
  EXPECT_EQ(outputs.at("y").values, (Numbers{3, 4}));
  const float least = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(outputs.at("most").values, (Numbers{least, least}));
  ASSERT_FALSE(imported.notes.empty());
  EXPECT_TRUE(Contains(imported.notes[0], "input 'x' has no elements"));
}

TEST(OnnxOperators, FindsTheLargestOfWideWindows) {
  ModelBuilder builder;
  builder.Input("x", {1, 1, 42}).Output("y");
  onnx::NodeProto& pool = builder.Node("MaxPool", {"x"}, {"y"});
  ModelBuilder::SetInts(pool, "kernel_shape", {20});
  ModelBuilder::SetInts(pool, "dilations", {2});
  ModelBuilder::SetInts(pool, "strides", {3});
  Numbers x(42);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 2 == 0 ? i : 41 - i);
  const auto outputs = test::Run(Import(builder), {{"x", {Shape({1, 1, 42}), x}}});
  EXPECT_EQ(outputs.at("y").values, (Numbers{38, 38}));  // even from 0 on, odd from 3 on
}

TEST(OnnxOperators, CountsPositionsColumnsFirst) {
  ModelBuilder builder;
  builder.Input("x", {1, 1, 2, 3}).Output("y").Output("at");
  onnx::NodeProto& pool = builder.Node("MaxPool", {"x"}, {"y", "at"});
  ModelBuilder::SetInts(pool, "kernel_shape", {2, 3});
  ModelBuilder::SetInt(pool, "storage_order", 1);
  const auto outputs =
      test::Run(Import(builder), {{"x", {Shape({1, 1, 2, 3}), {0, 5, 1, 2, 3, 4}}}});
  EXPECT_EQ(outputs.at("at").values, Numbers{2});
}

// One unit, two streams of 2 and 1 steps.
std::map<std::string, test::ShapedValues> Sequences(const std::string& op, int64_t gates) {
  ModelBuilder builder;
  builder.Input("x", {2, 2, 1}).Output("y").Output("h");
  builder.Floats("w", {2, gates, 1}, Numbers(static_cast<size_t>(2 * gates), 1));
  builder.Floats("r", {2, gates, 1}, Numbers(static_cast<size_t>(2 * gates), 0.5F));
  builder.Ints("lengths", {2}, {2, 1});
  onnx::NodeProto& node = builder.Node(op, {"x", "w", "r", "", "lengths"}, {"y", "h"});
  ModelBuilder::SetInt(node, "hidden_size", 1);
  ModelBuilder::SetString(node, "direction", "bidirectional");
  return test::Run(Import(builder), {{"x", {Shape({2, 2, 1}), {1, 2, 3, 4}}}});
}

TEST(OnnxOperators, EndsSequencesOfDifferentLengths) {
  for (const auto& [op, gates] :
       std::map<std::string, int64_t>{{"RNN", 1}, {"GRU", 3}, {"LSTM", 4}}) {
    const auto outputs = Sequences(op, gates);
    const Numbers y = outputs.at("y").values, h = outputs.at("h").values;
    ASSERT_EQ(outputs.at("y").shape, Shape({2, 2, 2, 1})) << op;  // step, direction, stream
    ASSERT_EQ(outputs.at("h").shape, Shape({2, 2, 1})) << op;
    EXPECT_EQ(y[5], 0) << op;  // the second stream has no second step
    EXPECT_EQ(y[7], 0) << op;
    EXPECT_FLOAT_EQ(h[0], y[4]) << op;  // forward: the last steps
    EXPECT_FLOAT_EQ(h[1], y[1]) << op;
    EXPECT_FLOAT_EQ(h[2], y[2]) << op;  // backward: the first step
    EXPECT_FLOAT_EQ(h[3], y[3]) << op;
    EXPECT_FLOAT_EQ(y[1], y[3]) << op;  // one step: both directions are the same
    EXPECT_NE(y[4], 0) << op;
  }
  EXPECT_FLOAT_EQ(Sequences("RNN", 1).at("y").values[6], std::tanh(3.0F));
}

TEST(OnnxOperators, RefusesSequencesBackwardWithInitialStates) {
  ModelBuilder builder;
  builder.Input("x", {2, 2, 1}).Output("y");
  builder.Floats("w", {1, 4, 1}, Numbers(4, 1));
  builder.Floats("r", {1, 4, 1}, Numbers(4, 1));
  builder.Floats("h", {1, 2, 1}, Numbers(2, 1));
  builder.Ints("lengths", {2}, {2, 1});
  onnx::NodeProto& node = builder.Node("LSTM", {"x", "w", "r", "", "lengths", "h"}, {"y"});
  ModelBuilder::SetString(node, "direction", "reverse");
  EXPECT_TRUE(Contains(ImportError(builder), "sequences of different lengths"));
}

// The error of a node with an attribute.
std::string ErrorOfAttribute(int64_t opset, const std::string& op, const std::string& attribute) {
  ModelBuilder builder(opset);
  builder.Input("x", {1, 3, 8, 8}).Output("y");
  builder.Floats("w", {4, 3, 1, 1}, Numbers(12, 1));
  const bool takes_weights = op == "Conv";
  onnx::NodeProto& node = builder.Node(
      op, takes_weights ? std::vector<std::string>{"x", "w"} : std::vector<std::string>{"x"},
      {"y"});
  ModelBuilder::SetInt(node, attribute, 1);
  return ImportError(builder);
}

TEST(OnnxOperators, RefuseAttributesThatTheOperatorOfTheOpsetLacks) {
  EXPECT_TRUE(Contains(ErrorOfAttribute(17, "Conv", "groups"),
                       "node 'n_y' (Conv) of opset 17 with inputs (float32 1x3x8x8, float32 "
                       "4x3x1x1): has the attribute 'groups', which Conv lacks"))
      << ErrorOfAttribute(17, "Conv", "groups");
  EXPECT_TRUE(Contains(ErrorOfAttribute(17, "Relu", "alpha"), "which Relu lacks"));
  EXPECT_TRUE(Contains(ErrorOfAttribute(13, "Clip", "min"), "lacks from opset 11 on"));
  EXPECT_TRUE(Contains(ErrorOfAttribute(12, "AveragePool", "dilations"), "lacks before opset 19"));
  EXPECT_TRUE(Contains(ErrorOfAttribute(9, "MaxPool", "ceil_mode"), "lacks before opset 10"));
}

TEST(OnnxOperators, TakeAttributesThatChangeNothing) {
  EXPECT_EQ(ErrorOfAttribute(5, "Relu", "consumed_inputs"), "");
  ModelBuilder builder(19);
  builder.Input("x", {2}).Output("y");
  onnx::NodeProto& cast = builder.Node("Cast", {"x"}, {"y"});
  ModelBuilder::SetInt(cast, "to", onnx::TensorProto::FLOAT16);
  ModelBuilder::SetInt(cast, "saturate", 0);
  EXPECT_EQ(ImportError(builder), "");
}

// The error of a node on inputs x of one type and z of another.
std::string ErrorOfTypes(const std::string& op, int x, int z) {
  ModelBuilder builder(17);
  builder.Input("x", {2}, x).Input("z", {2}, z).Output("y");
  builder.Node(op, {"x", "z"}, {"y"});
  return ImportError(builder);
}

TEST(OnnxOperators, RefuseInputsOfAnotherKind) {
  constexpr int kFloat = onnx::TensorProto::FLOAT;
  constexpr int kInt64 = onnx::TensorProto::INT64;
  constexpr int kBool = onnx::TensorProto::BOOL;
  EXPECT_TRUE(Contains(ErrorOfTypes("Add", kFloat, kInt64),
                       "its inputs 0 and 1 are float32 and int64, but Add takes one type"))
      << ErrorOfTypes("Add", kFloat, kInt64);
  EXPECT_TRUE(Contains(ErrorOfTypes("Max", kInt64, kFloat), "but Max takes one type"));
  EXPECT_TRUE(Contains(ErrorOfTypes("Mul", kBool, kBool),
                       "its input 0 is bool, but Mul takes floats or whole numbers there"));
  EXPECT_TRUE(Contains(ErrorOfTypes("Or", kBool, kFloat), "but Or takes booleans there"));
  EXPECT_TRUE(Contains(ErrorOfTypes("Gather", kFloat, kFloat), "takes whole numbers there"));
  EXPECT_EQ(ErrorOfTypes("Add", kInt64, kInt64), "");
  EXPECT_EQ(ErrorOfTypes("Pow", kFloat, kInt64), "");
}

TEST(OnnxOperators, RefuseInputsThatTheOperatorOfTheOpsetLacks) {
  const auto error = [](int64_t opset, const std::string& op) {
    ModelBuilder builder(opset);
    builder.Input("x", {2, 2}).Output("y");
    builder.Floats("low", {}, {0});
    builder.Node(op, {"x", "low", ""}, {"y"});
    return ImportError(builder);
  };
  EXPECT_TRUE(Contains(error(17, "Relu"), "has an input 1, but Relu takes 1")) << error(17, "Relu");
  EXPECT_TRUE(Contains(error(10, "Clip"), "has an input 1, but Clip takes 1"));
  EXPECT_EQ(error(11, "Clip"), "");
}

// The error of a node that reads x of 2x3x4 and constants of whole numbers.
std::string ErrorOfInts(int64_t opset, const std::string& op,
                        const std::vector<std::vector<int64_t>>& constants,
                        const std::string& attribute = "") {
  ModelBuilder builder(opset);
  builder.Input("x", {2, 3, 4}).Output("y");
  std::vector<std::string> inputs = {"x"};
  for (const std::vector<int64_t>& values : constants) {
    inputs.push_back("k" + std::to_string(inputs.size()));
    builder.Ints(inputs.back(), {static_cast<int64_t>(values.size())}, values);
  }
  onnx::NodeProto& node = builder.Node(op, inputs, {"y"});
  if (!attribute.empty()) ModelBuilder::SetInt(node, attribute, 9);
  return ImportError(builder);
}

TEST(OnnxOperators, RefuseParametersThatContradictThemselves) {
  const auto says = [](const std::string& error, const char* text) {
    EXPECT_TRUE(Contains(error, text)) << error;
  };
  says(ErrorOfInts(18, "ReduceSum", {{0, -3}}), "names axis 0 twice");
  says(ErrorOfInts(17, "Slice", {{0, 1}, {1, 2}, {0, 0}}), "names axis 0 twice");
  says(ErrorOfInts(17, "Squeeze", {{1, 1}}), "names axis 1 twice");
  says(ErrorOfInts(17, "Reshape", {{-1, -1}}), "gives -1 for more than one dimension");
  says(ErrorOfInts(18, "Split", {}, "num_outputs"), "has 1 outputs, but num_outputs is 9");
  ModelBuilder resize(18);
  resize.Input("x", {2, 3, 4}).Output("y");
  resize.Floats("scales", {3}, {1, 1, 2});
  resize.Ints("sizes", {3}, {2, 3, 8});
  resize.Node("Resize", {"x", "", "scales", "sizes"}, {"y"});
  says(ImportError(resize), "has both scales and sizes");
}

TEST(OnnxOperators, AreRefusedByNameIfThereIsNoLayer) {
  ModelBuilder builder;
  builder.Input("x", {8}).Input("matrix", {2, 2}).Output("u").Output("d");
  builder.Node("Unique", {"x"}, {"u"});
  builder.Node("Det", {"matrix"}, {"d"});
  const std::string error = ImportError(builder);
  EXPECT_TRUE(Contains(error, "node 'n_u' (Unique)")) << error;
  EXPECT_TRUE(Contains(error, "node 'n_d' (Det)")) << error;
}

TEST(OnnxOperators, RefuseValuesOfTheRunWhereConstantsAreNeeded) {
  ModelBuilder builder;
  builder.Input("x", {2, 3}).Output("y").Node("NonZero", {"x"}, {"y"});
  EXPECT_TRUE(Contains(ImportError(builder), "its input 0 ('x') is known only when the net runs"))
      << ImportError(builder);
}

TEST(OnnxOperators, RefusePeepholesByName) {
  ModelBuilder builder;
  builder.Input("x", {2, 1, 1}).Output("y");
  builder.Floats("w", {1, 4, 1}, Numbers(4, 1));
  builder.Floats("r", {1, 4, 1}, Numbers(4, 1));
  builder.Floats("p", {1, 3}, {0, 1, 0});
  ModelBuilder::SetInt(builder.Node("LSTM", {"x", "w", "r", "", "", "", "", "p"}, {"y"}),
                       "hidden_size", 1);
  EXPECT_TRUE(Contains(ImportError(builder), "node 'n_y' (LSTM)")) << ImportError(builder);
  EXPECT_TRUE(Contains(ImportError(builder), "has peepholes"));
}

}  // namespace
}  // namespace crema
