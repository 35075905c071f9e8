// Sizes of inputs that the layers of an imported net depend on.
#include <gtest/gtest.h>

#include <numeric>

#include "model_builder.h"

namespace crema {
namespace {

using test::Import;
using test::ModelBuilder;
using test::ShapedValues;

ShapedValues CountingFromOne(const Shape& shape) {
  ShapedValues values{shape, std::vector<float>(static_cast<size_t>(shape.count()))};
  std::iota(values.values.begin(), values.values.end(), 1.F);
  return values;
}

std::string RunError(const ImportedNet& net, const std::map<std::string, ShapedValues>& inputs) {
  try {
    test::Run(net, inputs);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Expects that the net takes x of one shape, and refuses the other one.
void ExpectFixed(const ModelBuilder& builder, const Shape& own, const Shape& other) {
  const ImportedNet net = Import(builder, {.shapes = {{"x", own}}});
  EXPECT_EQ(RunError(net, {{"x", CountingFromOne(own)}}), "");
  const std::string message = RunError(net, {{"x", CountingFromOne(other)}});
  const std::string shape = "--shape=x=" + ToString(other);
  EXPECT_NE(message.find(shape), std::string::npos) << message;
  ASSERT_FALSE(net.notes.empty());
  EXPECT_NE(net.notes[0].find("input 'x': axis "), std::string::npos) << net.notes[0];
  // For the other shape it is another net.
  EXPECT_EQ(RunError(Import(builder, {.shapes = {{"x", other}}}), {{"x", CountingFromOne(other)}}),
            "");
}

// Adds `name`: the size of an axis of x.
void AddSize(ModelBuilder* builder, int64_t axis, const std::string& name) {
  builder->Ints(name + "_axis", {1}, {axis});
  builder->Node("Shape", {"x"}, {name + "_shape"});
  builder->Node("Gather", {name + "_shape", name + "_axis"}, {name});
}

TEST(ImportSizes, DivisionByTheBatch) {
  ModelBuilder builder;
  builder.Input("x", {-1, 3}).Output("y");
  AddSize(&builder, 0, "n");
  ModelBuilder::SetInt(builder.Node("Cast", {"n"}, {"f"}), "to", onnx::TensorProto::FLOAT);
  builder.Node("Div", {"x", "f"}, {"y"});
  ExpectFixed(builder, {2, 3}, {4, 3});
  ExpectFixed(builder, {1, 3}, {2, 3});
  const ImportedNet net = Import(builder, {.shapes = {{"x", {2, 3}}}});
  const auto outputs = test::Run(net, {{"x", CountingFromOne({2, 3})}});
  EXPECT_EQ(outputs.at("y").values, (std::vector<float>{0.5, 1, 1.5, 2, 2.5, 3}));
}

TEST(ImportSizes, FirstSample) {
  ModelBuilder builder;
  builder.Input("x", {-1, 3}).Output("y");
  builder.Ints("start", {1}, {0});
  builder.Ints("end", {1}, {1});
  builder.Ints("axes", {1}, {0});
  builder.Node("Slice", {"x", "start", "end", "axes"}, {"y"});
  ExpectFixed(builder, {1, 3}, {5, 3});
}

TEST(ImportSizes, OfTheFileThatTheGraphReads) {
  ModelBuilder builder;
  builder.Input("x", {2, 3}).Output("y");
  AddSize(&builder, 0, "n");
  ModelBuilder::SetInt(builder.Node("Cast", {"n"}, {"f"}), "to", onnx::TensorProto::FLOAT);
  builder.Node("Div", {"x", "f"}, {"y"});
  const ImportedNet net = Import(builder);
  EXPECT_EQ(RunError(net, {{"x", CountingFromOne({2, 3})}}), "");
  EXPECT_NE(RunError(net, {{"x", CountingFromOne({4, 3})}}), "");
  EXPECT_EQ(RunError(net, {{"x", CountingFromOne({2, 5})}}), "");
}

TEST(ImportSizes, OneVectorOfAllSamples) {
  ModelBuilder builder;
  builder.Input("x", {-1, 3}).Output("y");
  ModelBuilder::SetInt(builder.Node("Flatten", {"x"}, {"f"}), "axis", 0);
  builder.Node("Shape", {"x"}, {"s"});
  builder.Node("Softmax", {"f"}, {"p"});
  builder.Node("Reshape", {"p", "s"}, {"y"});
  ExpectFixed(builder, {1, 3}, {2, 3});
}

TEST(ImportSizes, OutputOfTheShape) {
  ModelBuilder builder;
  builder.Input("x", {-1, 3}).Output("y").Output("s");
  builder.Node("Relu", {"x"}, {"y"});
  builder.Node("Shape", {"x"}, {"s"});
  ExpectFixed(builder, {1, 3}, {2, 3});
}

TEST(ImportSizes, OnlyTheOutputOfTheShape) {
  ModelBuilder builder;
  builder.Input("x", {-1, 3}).Output("s");
  builder.Node("Shape", {"x"}, {"s"});
  ExpectFixed(builder, {1, 3}, {2, 3});
}

TEST(ImportSizes, BranchOnTheBatch) {
  ModelBuilder builder;
  builder.Input("x", {-1, 3}).Output("y");
  builder.Ints("one", {1}, {1});
  AddSize(&builder, 0, "n");
  builder.Node("Greater", {"n", "one"}, {"many"});
  auto& branch = builder.Node("If", {"many"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    onnx::GraphProto& graph = ModelBuilder::SetGraph(branch, name);
    graph.add_output()->set_name(std::string(name) + "_y");
    const bool then = std::string(name) == "then_branch";
    ModelBuilder::AddNode(&graph, then ? "Neg" : "Relu", {"x"}, {std::string(name) + "_y"});
  }
  ExpectFixed(builder, {1, 3}, {2, 3});
}

// Halves the image, and resizes it to its size. Sizes of other products are no exchange.
TEST(ImportSizes, ResizeToTheSizeOfTheImage) {
  ModelBuilder builder;
  builder.Input("x", {-1, 1, -1, -1}).Output("y");
  auto& pool = builder.Node("MaxPool", {"x"}, {"p"});
  ModelBuilder::SetInts(pool, "kernel_shape", {2, 2});
  ModelBuilder::SetInts(pool, "strides", {2, 2});
  builder.Ints("front", {2}, {1, 1});
  builder.Ints("two", {1}, {2});
  builder.Ints("four", {1}, {4});
  builder.Node("Shape", {"x"}, {"s"});
  builder.Node("Shape", {"p"}, {"q"});
  builder.Node("Slice", {"s", "two", "four"}, {"image"});
  builder.Node("Slice", {"q", "axis0", "two"}, {"begin"});
  builder.Ints("axis0", {1}, {0});
  builder.Node("Concat", {"begin", "image"}, {"sizes"});
  ModelBuilder::SetInt(*builder.graph().mutable_node(builder.graph().node_size() - 1), "axis", 0);
  builder.Node("Resize", {"p", "", "", "sizes"}, {"y"});
  ExpectFixed(builder, {1, 1, 4, 4}, {1, 1, 8, 8});
  ExpectFixed(builder, {1, 1, 4, 6}, {1, 1, 6, 4});
  ExpectFixed(builder, {1, 1, 4, 4}, {1, 1, 2, 8});
  // The batch is free.
  const ImportedNet net = Import(builder, {.shapes = {{"x", {1, 1, 4, 4}}}});
  EXPECT_EQ(test::Run(net, {{"x", CountingFromOne({3, 1, 4, 4})}}).at("y").shape,
            Shape({3, 1, 4, 4}));
}

TEST(ImportSizes, StayFreeWhereLayersAreTheSame) {
  ModelBuilder builder;
  builder.Input("x", {-1, 2, -1, -1}).Output("y");
  builder.Floats("w", {1, 2, 3, 3}, std::vector<float>(18, 1));
  AddSize(&builder, 0, "n");
  builder.Ints("rest", {1}, {-1});
  builder.Node("Conv", {"x", "w"}, {"c"});
  builder.Node("GlobalAveragePool", {"c"}, {"g"});
  ModelBuilder::SetInt(builder.Node("Concat", {"n", "rest"}, {"shape"}), "axis", 0);
  builder.Node("Reshape", {"g", "shape"}, {"y"});
  const ImportedNet net = Import(builder, {.shapes = {{"x", {1, 2, 4, 4}}}});
  EXPECT_TRUE(net.notes.empty());
  EXPECT_EQ(test::Run(net, {{"x", CountingFromOne({3, 2, 7, 5})}}).at("y").shape, Shape({3, 1}));
}

TEST(ImportSizes, StayFreeWhereOtherAxesExpand) {
  ModelBuilder builder;
  builder.Input("x", {-1, 1}).Output("y");
  AddSize(&builder, 0, "n");
  builder.Ints("four", {1}, {4});
  ModelBuilder::SetInt(builder.Node("Concat", {"n", "four"}, {"shape"}), "axis", 0);
  builder.Node("Expand", {"x", "shape"}, {"y"});
  const ImportedNet net = Import(builder);
  EXPECT_TRUE(net.notes.empty());
  EXPECT_EQ(test::Run(net, {{"x", CountingFromOne({3, 1})}}).at("y").shape, Shape({3, 4}));
}

TEST(ImportSizes, InputsOfOneBatchChangeTogether) {
  ModelBuilder builder;
  builder.Input("x", {-1, 3}).Input("z", {-1, 3}).Output("y");
  builder.Node("MatMul", {"x", "w"}, {"m"});
  builder.Floats("w", {3, 3}, std::vector<float>(9, 1));
  builder.Node("Add", {"m", "z"}, {"y"});
  const ImportedNet net = Import(builder, {.shapes = {{"x", {2, 3}}, {"z", {2, 3}}}});
  EXPECT_TRUE(net.notes.empty());
  EXPECT_EQ(RunError(net, {{"x", CountingFromOne({4, 3})}, {"z", CountingFromOne({4, 3})}}), "");
}

TEST(ImportSizes, ShapesOfArrays) {
  ModelBuilder builder;
  builder.Input("x", {-1, -1}).Output("y");
  builder.Node("Relu", {"x"}, {"y"});
  const auto shape = [&](const ImportOptions& options) {
    const BlobShape dims = Import(builder, options).net.layer(0).input_param().shape(0);
    return Shape(std::vector<int64_t>(dims.dim().begin(), dims.dim().end()));
  };
  EXPECT_EQ(shape({.arrays = {{"", {2, 3}}}}), Shape({2, 3}));
  EXPECT_EQ(shape({.arrays = {{"x", {2, 3}}, {"z", {7}}}}), Shape({2, 3}));
  EXPECT_EQ(shape({.shapes = {{"x", {4, 5}}}, .arrays = {{"x", {2, 3}}}}), Shape({4, 5}));
  EXPECT_NE(test::ImportError(builder, {.arrays = {{"x", {2}}}}).find("--shape"),
            std::string::npos);
}

}  // namespace
}  // namespace crema
