// ONNX models as nets: values, names, shapes and errors.
#include "onnx/import.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model_builder.h"
#include "support/error_text.h"

namespace crema {
namespace {

using test::Contains;
using test::Import;
using test::ImportError;
using test::LayerTypes;
using test::ModelBuilder;
using test::ShapedValues;
using Types = std::vector<std::string>;

// y = relu(conv(x)), of a kernel of ones.
ModelBuilder SmallNet() {
  ModelBuilder builder;
  builder.Input("x", {-1, 1, 2, 2}).Output("y");
  builder.Floats("w", {1, 1, 2, 2}, {1, 1, 1, 1});
  builder.Floats("b", {1}, {-1});
  builder.Node("Conv", {"x", "w", "b"}, {"c"});
  builder.Node("Relu", {"c"}, {"y"});
  return builder;
}

TEST(OnnxImport, KeepsNamesAndOrder) {
  const ImportedNet imported = Import(SmallNet());
  ASSERT_EQ(imported.net.layer_size(), 3);
  EXPECT_EQ(imported.net.layer(0).name(), "x");
  EXPECT_EQ(imported.net.layer(1).name(), "n_c");
  EXPECT_EQ(imported.net.layer(1).top(0), "c");
  EXPECT_EQ(imported.net.layer(2).top(0), "y");
  EXPECT_EQ(imported.net.layer(1).blobs_size(), 2);
  const auto outputs = test::Run(imported, {{"x", {Shape({1, 1, 2, 2}), {1, 2, 3, 4}}}});
  EXPECT_EQ(outputs.at("y").values, std::vector<float>{9});
}

TEST(OnnxImport, ReducesElementsAlone) {
  const std::vector<std::pair<std::string, float>> cases = {
      {"ReduceSum", 3.0F}, {"ReduceL1", 3.0F}, {"ReduceSumSquare", 9.0F}};
  for (const auto& [op, value] : cases) {
    ModelBuilder builder(18);
    builder.Input("x", {1, 2}).Output("y");
    ModelBuilder::SetInt(builder.Node(op, {"x"}, {"y"}), "noop_with_empty_axes", 1);
    const auto outputs = test::Run(Import(builder), {{"x", {Shape({1, 2}), {3, 1}}}});
    EXPECT_EQ(outputs.at("y").values, (std::vector<float>{value, 1})) << op;
  }
}

TEST(OnnxImport, RefusesAnAxisTwiceInTranspose) {
  ModelBuilder builder;
  builder.Input("x", {2, 2}).Output("y");
  ModelBuilder::SetInts(builder.Node("Transpose", {"x"}, {"y"}), "perm", {0, 0});
  EXPECT_TRUE(Contains(ImportError(builder), "names axis 0 twice"));
}

TEST(OnnxImport, TakesOtherBatches) {
  const ImportedNet imported = Import(SmallNet(), {.shapes = {{"x", Shape({2, 1, 2, 2})}}});
  const auto outputs =
      test::Run(imported, {{"x", {Shape({2, 1, 2, 2}), {1, 2, 3, 4, 0, 0, 0, 0}}}});
  EXPECT_EQ(outputs.at("y").values, (std::vector<float>{9, 0}));
}

TEST(OnnxImport, NamesInputsWithoutShapes) {
  ModelBuilder builder;
  builder.Input("x", {-1, 3, -1, -1}).Output("y");
  builder.Node("Relu", {"x"}, {"y"});
  const std::string error = ImportError(builder);
  EXPECT_TRUE(Contains(error, "input 'x' is ?x3x?x?")) << error;
  EXPECT_TRUE(Contains(error, "--shape x=1x3x224x224")) << error;
  EXPECT_TRUE(Contains(ImportError(builder, {.shapes = {{"z", Shape({1})}}}), "no input 'z'"));
  EXPECT_TRUE(Contains(ImportError(builder, {.shapes = {{"x", Shape({1, 4, 5, 5})}}}),
                       "--shape gives 1x4x5x5"));
  EXPECT_EQ(ImportError(builder, {.shapes = {{"x", Shape({1, 3, 5, 5})}}}), "");
}

TEST(OnnxImport, ListsAllNodesThatItDoesNotRead) {
  ModelBuilder builder;
  builder.Input("x", {1, 4}).Output("y");
  builder.Node("Frobnicate", {"x"}, {"a"});
  builder.Node("Relu", {"a"}, {"b"});
  builder.Node("Unknown", {"b"}, {"y"}).set_domain("com.example");
  const std::string error = ImportError(builder);
  EXPECT_TRUE(Contains(error, "node 'n_a' (Frobnicate)")) << error;
  EXPECT_TRUE(Contains(error, "(float32 1x4)")) << error;
  EXPECT_TRUE(Contains(error, "node 'n_y' (com.example.Unknown)")) << error;
  EXPECT_FALSE(Contains(error, "n_b")) << error;
}

TEST(OnnxImport, RefusesDamagedGraphs) {
  ModelBuilder missing;
  missing.Input("x", {1}).Output("y");
  missing.Node("Add", {"x", "z"}, {"y"});
  EXPECT_TRUE(Contains(ImportError(missing), "reads 'z', which nothing produces"));
  ModelBuilder twice;
  twice.Input("x", {1}).Output("y");
  twice.Node("Relu", {"x"}, {"y"});
  twice.Node("Abs", {"x"}, {"y"});
  EXPECT_TRUE(Contains(ImportError(twice), "'y' is produced twice"));
  ModelBuilder cycle;
  cycle.Input("x", {1}).Output("y");
  cycle.Node("Add", {"x", "b"}, {"a"});
  cycle.Node("Relu", {"a"}, {"b"});
  cycle.Node("Abs", {"b"}, {"y"});
  EXPECT_TRUE(Contains(ImportError(cycle), "is in a cycle"));
  ModelBuilder output;
  output.Input("x", {1}).Output("y");
  EXPECT_TRUE(Contains(ImportError(output), "output 'y'"));
}

TEST(OnnxImport, RefusesModelsWithoutOutputs) {
  ModelBuilder builder = SmallNet();
  builder.graph().clear_output();
  EXPECT_TRUE(Contains(ImportError(builder), "has no outputs"));
}

TEST(OnnxImport, SortsNodes) {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("y");
  builder.Node("Abs", {"a"}, {"y"});
  builder.Node("Neg", {"x"}, {"a"});
  const auto outputs = test::Run(Import(builder), {{"x", {Shape({2}), {1, -2}}}});
  EXPECT_EQ(outputs.at("y").values, (std::vector<float>{1, 2}));
}

TEST(OnnxImport, FoldsShapeArithmetic) {
  ModelBuilder builder;
  builder.Input("x", {-1, 2, 3}).Output("y");
  builder.Ints("zero", {}, {0});
  builder.Ints("minus", {1}, {-1});
  builder.Ints("axis", {1}, {0});
  builder.Node("Shape", {"x"}, {"s"});
  builder.Node("Gather", {"s", "zero"}, {"n"});
  builder.Node("Unsqueeze", {"n", "axis"}, {"n1"});
  ModelBuilder::SetInt(builder.Node("Concat", {"n1", "minus"}, {"to"}), "axis", 0);
  builder.Node("Reshape", {"x", "to"}, {"y"});
  const ImportedNet imported = Import(builder);
  EXPECT_EQ(LayerTypes(imported), Types{"Reshape"});
  EXPECT_EQ(imported.net.layer(1).reshape_param().shape().dim(0), 0);  // other batches fit
}

TEST(OnnxImport, RefusesFoldingWithoutBounds) {
  ModelBuilder builder;
  builder.Input("x", {1}).Output("y");
  builder.Ints("shape", {3}, {1 << 20, 1 << 20, 1 << 20});
  builder.Node("ConstantOfShape", {"shape"}, {"big"});
  builder.Node("Add", {"x", "big"}, {"y"});
  EXPECT_TRUE(Contains(ImportError(builder), "ConstantOfShape"));
}

TEST(OnnxImport, InlinesFunctions) {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("y");
  builder.Node("Twice", {"x"}, {"y"}).set_domain("local");
  onnx::FunctionProto* function = builder.proto().add_functions();
  function->set_name("Twice");
  function->set_domain("local");
  function->add_input("a");
  function->add_output("b");
  function->add_opset_import()->set_version(17);
  ModelBuilder::AddNode(function, "Add", {"a", "a"}, {"b"});
  const auto outputs = test::Run(Import(builder), {{"x", {Shape({2}), {1, -2}}}});
  EXPECT_EQ(outputs.at("y").values, (std::vector<float>{2, -4}));
  function->mutable_node(0)->set_op_type("Twice");
  function->mutable_node(0)->set_domain("local");
  EXPECT_TRUE(Contains(ImportError(builder), "or itself"));
}

ModelBuilder Choice(bool constant) {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("y");
  if (constant) {
    builder.Ints("c", {}, {1}).set_data_type(onnx::TensorProto::BOOL);
    builder.graph().mutable_initializer(0)->clear_int64_data();
    builder.graph().mutable_initializer(0)->add_int32_data(1);
  } else {
    builder.Input("c", {}, onnx::TensorProto::BOOL);
  }
  onnx::NodeProto& node = builder.Node("If", {"c"}, {"y"});
  onnx::GraphProto& yes = ModelBuilder::SetGraph(node, "then_branch");
  ModelBuilder::AddNode(&yes, "Neg", {"x"}, {"r"});
  yes.add_output()->set_name("r");
  onnx::GraphProto& no = ModelBuilder::SetGraph(node, "else_branch");
  ModelBuilder::AddNode(&no, "Abs", {"x"}, {"r"});
  no.add_output()->set_name("r");
  return builder;
}

TEST(OnnxImport, TakesBranchesOfConstantConditions) {
  const auto outputs = test::Run(Import(Choice(true)), {{"x", {Shape({2}), {1, -2}}}});
  EXPECT_EQ(outputs.at("y").values, (std::vector<float>{-1, 2}));
  const std::string error = ImportError(Choice(false));
  EXPECT_TRUE(Contains(error, "node 'n_y' (If)")) << error;
  EXPECT_TRUE(Contains(error, "condition that is not constant")) << error;
}

TEST(OnnxImport, RefusesBranchesWithTooFewOutputs) {
  ModelBuilder builder = Choice(true);
  builder.graph().mutable_node(builder.graph().node_size() - 1)->add_output("z");
  EXPECT_TRUE(Contains(ImportError(builder), "(If)")) << ImportError(builder);
  EXPECT_TRUE(Contains(ImportError(builder), "has 2 outputs, but its ")) << ImportError(builder);
}

TEST(OnnxImport, UnrollsLoopsOfConstantLength) {
  ModelBuilder builder;
  builder.Input("x", {1}).Output("y").Output("all");
  builder.Ints("steps", {}, {3});
  onnx::NodeProto& loop = builder.Node("Loop", {"steps", "", "x"}, {"y", "all"});
  onnx::GraphProto& body = ModelBuilder::SetGraph(loop, "body");
  for (const char* name : {"i", "on", "v"}) body.add_input()->set_name(name);
  ModelBuilder::AddNode(&body, "Identity", {"on"}, {"on2"});
  ModelBuilder::AddNode(&body, "Add", {"v", "v"}, {"v2"});
  for (const char* name : {"on2", "v2", "v2"}) body.add_output()->set_name(name);
  const auto outputs = test::Run(Import(builder), {{"x", {Shape({1}), {1}}}});
  EXPECT_EQ(outputs.at("y").values, std::vector<float>{8});
  EXPECT_EQ(outputs.at("all").values, (std::vector<float>{2, 4, 8}));
}

TEST(OnnxImport, GivesOutputsThatOtherNodesRead) {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("a").Output("y").Output("same").Output("k");
  builder.Floats("k", {1}, {7});
  builder.Node("Neg", {"x"}, {"a"});
  builder.Node("Abs", {"a"}, {"y"});
  builder.Node("Identity", {"y"}, {"same"});
  const auto outputs = test::Run(Import(builder), {{"x", {Shape({2}), {1, -2}}}});
  EXPECT_EQ(outputs.at("a").values, (std::vector<float>{-1, 2}));
  EXPECT_EQ(outputs.at("y").values, (std::vector<float>{1, 2}));
  EXPECT_EQ(outputs.at("same").values, (std::vector<float>{1, 2}));
  EXPECT_EQ(outputs.at("k").values, std::vector<float>{7});
}

TEST(OnnxImport, PadsAverageWindowsExactly) {
  ModelBuilder builder;
  builder.Input("x", {1, 1, 2, 2}).Output("y");
  onnx::NodeProto& pool = builder.Node("AveragePool", {"x"}, {"y"});
  ModelBuilder::SetInts(pool, "kernel_shape", {2, 2});
  ModelBuilder::SetInts(pool, "pads", {0, 0, 1, 1});
  const auto outputs = test::Run(Import(builder), {{"x", {Shape({1, 1, 2, 2}), {1, 2, 3, 4}}}});
  EXPECT_EQ(outputs.at("y").values, (std::vector<float>{2.5F, 3, 3.5F, 4}));
}

TEST(OnnxImport, ReadsOldFormsOfAttributes) {
  ModelBuilder builder(9);
  builder.Input("x", {1, 2, 3}).Output("y");
  ModelBuilder::SetInts(builder.Node("Unsqueeze", {"x"}, {"u"}), "axes", {0});
  onnx::NodeProto& slice = builder.Node("Slice", {"u"}, {"s"});
  ModelBuilder::SetInts(slice, "starts", {1});
  ModelBuilder::SetInts(slice, "ends", {3});
  ModelBuilder::SetInts(slice, "axes", {3});
  ModelBuilder::SetInt(builder.Node("Softmax", {"s"}, {"y"}), "axis", 2);  // of axes 2 and 3
  const auto outputs = test::Run(Import(builder), {{"x", {Shape({1, 2, 3}), {9, 0, 0, 9, 0, 0}}}});
  EXPECT_EQ(outputs.at("y").shape, Shape({1, 1, 2, 2}));
  EXPECT_EQ(outputs.at("y").values, (std::vector<float>{0.25F, 0.25F, 0.25F, 0.25F}));
}

TEST(OnnxImport, CountsNegativeIndicesFromTheEnd) {
  ModelBuilder builder;
  builder.Input("i", {3}, onnx::TensorProto::INT64).Output("y");
  builder.Floats("rows", {3, 2}, {1, 2, 3, 4, 5, 6});
  builder.Node("Gather", {"rows", "i"}, {"y"});
  const auto outputs = test::Run(Import(builder), {{"i", {Shape({3}), {-1, 0, -2}}}});
  EXPECT_EQ(outputs.at("y").values, (std::vector<float>{5, 6, 1, 2, 3, 4}));
}

// 1 + 2^-11 lies between two halves, and 2^17 above the largest one.
TEST(OnnxImport, RoundsToHalf) {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("y").Output("z");
  builder.Floats("k", {2}, {1 + 0x1p-11F, 3 + 0x1p-10F});
  for (const char* name : {"x", "k"}) {
    const std::string half = std::string(name) + "h";
    ModelBuilder::SetInt(builder.Node("Cast", {name}, {half}), "to", onnx::TensorProto::FLOAT16);
    ModelBuilder::SetInt(builder.Node("Cast", {half}, {*name == 'x' ? "y" : "z"}), "to",
                         onnx::TensorProto::FLOAT);
  }
  const auto outputs = test::Run(Import(builder), {{"x", {Shape({2}), {1 + 0x1p-11F, 0x1p17F}}}});
  EXPECT_EQ(outputs.at("y").values,
            (std::vector<float>{1, std::numeric_limits<float>::infinity()}));
  EXPECT_EQ(outputs.at("z").values, (std::vector<float>{1, 3}));
}

TEST(OnnxImport, ConvertsRecurrentNets) {
  ModelBuilder builder;
  builder.Input("x", {2, 1, 1}).Output("y").Output("h");
  builder.Floats("w", {1, 1, 1}, {1});
  builder.Floats("r", {1, 1, 1}, {0});
  ModelBuilder::SetInt(builder.Node("RNN", {"x", "w", "r"}, {"y", "h"}), "hidden_size", 1);
  const auto outputs = test::Run(Import(builder), {{"x", {Shape({2, 1, 1}), {0, 1}}}});
  EXPECT_EQ(outputs.at("y").shape, Shape({2, 1, 1, 1}));
  EXPECT_FLOAT_EQ(outputs.at("y").values[0], 0);
  EXPECT_FLOAT_EQ(outputs.at("y").values[1], std::tanh(1.0F));
  EXPECT_FLOAT_EQ(outputs.at("h").values[0], std::tanh(1.0F));
}

std::vector<std::string> OutputNamesOf(const ModelBuilder& builder) {
  NetFile net;
  net.net = Import(builder).net;
  const Registry registry = BuiltinRegistry();
  const auto model = Model::Make(net, {}, {}, {}, registry, NullSink());
  std::vector<std::string> names;
  for (const BlobInfo& output : model->outputs()) names.push_back(output.name);
  return names;
}

TEST(OnnxImport, KeepsTheOrderOfOutputs) {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("third").Output("first").Output("fourth").Output("second");
  builder.Node("Neg", {"x"}, {"first"});
  builder.Node("Exp", {"x"}, {"second"});
  builder.Node("Tanh", {"x"}, {"third"});
  builder.Node("Sin", {"x"}, {"fourth"});
  EXPECT_EQ(OutputNamesOf(builder),
            (std::vector<std::string>{"third", "first", "fourth", "second"}));
}

TEST(OnnxImport, KeepsTheOrderOfOutputsOfOneNode) {
  ModelBuilder builder;
  builder.Input("x", {4}).Output("places").Output("values");
  builder.Ints("k", {1}, {2});
  builder.Node("TopK", {"x", "k"}, {"values", "places"});
  EXPECT_EQ(OutputNamesOf(builder), (std::vector<std::string>{"places", "values"}));
}

}  // namespace
}  // namespace crema
