// Imported nets as Caffe 1.0 and its SSD fork read them.
#include <gtest/gtest.h>

#include <algorithm>

#include "format/stock_caffe.h"
#include "model_builder.h"
#include "onnx/import_check.h"
#include "onnx/import_dialect.h"
#include "support/error_text.h"

namespace crema {
namespace {

using test::Contains;
using test::Import;
using test::ImportError;
using test::LayerTypes;
using test::ModelBuilder;

// x, of 1 x 4 x 4 x 4, becomes y by one node.
ModelBuilder OneNode(const std::string& op, const std::vector<std::string>& more = {}) {
  ModelBuilder builder;
  builder.Input("x", {1, 4, 4, 4}).Output("y");
  std::vector<std::string> inputs = {"x"};
  inputs.insert(inputs.end(), more.begin(), more.end());
  builder.Node(op, inputs, {"y"});
  return builder;
}

onnx::NodeProto& NodeOf(ModelBuilder* builder) { return *builder->graph().mutable_node(0); }

// Converts the model, and compares the net with that of all layers.
std::vector<std::string> DialectTypes(const ModelBuilder& builder, const std::string& dialect) {
  const ImportedNet all = Import(builder);
  NetFile file;
  file.net = Import(builder, {.dialect = dialect}).net;
  EXPECT_NO_THROW(CheckSameNets(all.net, file, "", 1e-6));
  if (dialect == "caffe") {
    EXPECT_TRUE(FindNotStock(file.net, {}).empty());
  }
  ImportedNet made;
  made.net = file.net;
  return LayerTypes(made);
}

using Names = std::vector<std::string>;

TEST(OnnxDialect, LeavesOutTheCheckOfWholeNumbers) {
  ModelBuilder builder;
  builder.Input("x", {2}, onnx::TensorProto::INT64).Output("y").Node("Neg", {"x"}, {"y"});
  EXPECT_EQ(LayerTypes(Import(builder)).back(), "CheckWhole");
  EXPECT_EQ(DialectTypes(builder, "caffe").back(), "Power");
}

TEST(OnnxDialect, ActivationsBecomeThoseOfCaffe) {
  ModelBuilder relu6 = OneNode("Clip", {"low", "high"});
  relu6.Floats("low", {}, {0});
  relu6.Floats("high", {}, {6});
  for (const char* dialect : {"caffe", "ssd"}) {
    EXPECT_EQ(DialectTypes(relu6, dialect), (Names{"ReLU", "Power", "ReLU", "Power"}));
  }
  ModelBuilder bounded = OneNode("Clip", {"low", "high"});
  bounded.Floats("low", {}, {0.25F});
  bounded.Floats("high", {}, {0.75F});
  EXPECT_EQ(DialectTypes(bounded, "ssd"), (Names{"Power", "ReLU", "Power", "ReLU", "Power"}));
  ModelBuilder least = OneNode("Clip", {"low"});
  least.Floats("low", {}, {0.5F});
  EXPECT_EQ(DialectTypes(least, "ssd"), (Names{"Power", "ReLU", "Power"}));
  ModelBuilder most = OneNode("Clip", {"", "high"});
  most.Floats("high", {}, {0.5F});
  EXPECT_EQ(DialectTypes(most, "ssd"), (Names{"Power", "ReLU", "Power"}));
  EXPECT_EQ(DialectTypes(OneNode("HardSwish"), "caffe"),
            (Names{"Power", "ReLU", "Power", "ReLU", "Power", "Eltwise"}));
  EXPECT_EQ(DialectTypes(OneNode("HardSigmoid"), "caffe"),
            (Names{"Power", "ReLU", "Power", "ReLU", "Power"}));
  EXPECT_EQ(DialectTypes(OneNode("Mish"), "ssd"), (Names{"BNLL", "TanH", "Eltwise"}));
  EXPECT_EQ(DialectTypes(OneNode("Softplus"), "ssd"), Names{"BNLL"});
  EXPECT_EQ(DialectTypes(OneNode("Sqrt"), "ssd"), Names{"Power"});
  ModelBuilder silu;
  silu.Input("x", {1, 2}).Output("y");
  silu.Node("Sigmoid", {"x"}, {"s"});
  silu.Node("Mul", {"x", "s"}, {"y"});
  EXPECT_EQ(DialectTypes(silu, "caffe"), (Names{"Sigmoid", "Eltwise"}));
}

TEST(OnnxDialect, PartsAndReductionsBecomeThoseOfCaffe) {
  ModelBuilder cut = OneNode("Slice", {"from", "to", "axis"});
  cut.Ints("from", {1}, {1});
  cut.Ints("to", {1}, {3});
  cut.Ints("axis", {1}, {2});
  EXPECT_EQ(DialectTypes(cut, "caffe"), (Names{"Slice", "Silence"}));
  ModelBuilder mean = OneNode("ReduceMean");
  ModelBuilder::SetInts(NodeOf(&mean), "axes", {3});
  EXPECT_EQ(DialectTypes(mean, "caffe"), (Names{"Reduction", "Reshape"}));
  ModelBuilder inner = OneNode("ReduceMean");
  ModelBuilder::SetInts(NodeOf(&inner), "axes", {1});
  EXPECT_TRUE(Contains(ImportError(inner, {.dialect = "caffe"}), "has no field 'axes'"));
  ModelBuilder largest;
  largest.Input("x", {2}).Input("z", {2}).Output("y");
  largest.Node("Max", {"x", "z"}, {"y"});
  EXPECT_EQ(DialectTypes(largest, "caffe"), Names{"Eltwise"});
}

TEST(OnnxDialect, EnlargedPlanesBecomeDeconvolutions) {
  ModelBuilder builder = OneNode("Resize", {"", "scales"});
  builder.Floats("scales", {4}, {1, 1, 2, 2});
  onnx::AttributeProto* mode = NodeOf(&builder).add_attribute();
  mode->set_name("mode");
  mode->set_s("nearest");
  for (const auto& [name, value] :
       {std::pair{"coordinate_transformation_mode", "asymmetric"}, {"nearest_mode", "floor"}}) {
    onnx::AttributeProto* attribute = NodeOf(&builder).add_attribute();
    attribute->set_name(name);
    attribute->set_s(value);
  }
  EXPECT_EQ(DialectTypes(builder, "caffe"), Names{"Deconvolution"});
}

TEST(OnnxDialect, RowsOfAConstantMatrixBecomeEmbed) {
  ModelBuilder builder;
  builder.Input("i", {3}, onnx::TensorProto::INT64).Output("y").Output("z");
  builder.Floats("rows", {2, 2}, {1, 2, 3, 4});
  builder.Node("Gather", {"rows", "i"}, {"y"});
  builder.Node("Gather", {"rows", "i"}, {"z"});
  EXPECT_EQ(DialectTypes(builder, "caffe"), (Names{"Embed", "Embed"}));
}

// Four channels in two groups change places.
TEST(OnnxDialect, ShufflesGoToSsd) {
  ModelBuilder builder;
  builder.Input("x", {1, 4, 2, 2}).Output("y");
  builder.Ints("apart", {5}, {1, 2, 2, 2, 2});
  builder.Ints("back", {4}, {1, 4, 2, 2});
  builder.Node("Reshape", {"x", "apart"}, {"a"});
  ModelBuilder::SetInts(builder.Node("Transpose", {"a"}, {"t"}), "perm", {0, 2, 1, 3, 4});
  builder.Node("Reshape", {"t", "back"}, {"y"});
  EXPECT_EQ(DialectTypes(builder, "ssd"), (Names{"Reshape", "Permute", "Reshape"}));
  EXPECT_TRUE(Contains(ImportError(builder, {.dialect = "caffe"}), "'ShuffleChannel'"));
}

TEST(OnnxDialect, PoolingRoundsAsTheDialectCan) {
  ModelBuilder even = OneNode("MaxPool");
  ModelBuilder::SetInts(NodeOf(&even), "kernel_shape", {2, 2});
  ModelBuilder::SetInts(NodeOf(&even), "strides", {2, 2});
  EXPECT_EQ(DialectTypes(even, "ssd"), Names{"Pooling"});
  ModelBuilder odd = OneNode("MaxPool");
  ModelBuilder::SetInts(NodeOf(&odd), "kernel_shape", {3, 3});
  ModelBuilder::SetInts(NodeOf(&odd), "strides", {2, 2});
  // Caffe has two windows in each direction here, ONNX one.
  for (const char* dialect : {"caffe", "ssd"}) {
    EXPECT_EQ(DialectTypes(odd, dialect),
              (Names{"Pooling", "Slice", "Silence", "Slice", "Silence"}));
  }
  ModelBuilder mean = OneNode("AveragePool");
  ModelBuilder::SetInts(NodeOf(&mean), "kernel_shape", {3, 2});
  ModelBuilder::SetInts(NodeOf(&mean), "strides", {2, 2});
  EXPECT_EQ(DialectTypes(mean, "caffe"), (Names{"Pooling", "Slice", "Silence"}));
}

TEST(OnnxDialect, AllNodesThatCannotGoAreListed) {
  ModelBuilder builder;
  builder.Input("x", {1, 2, 5}).Output("y");
  builder.Node("Erf", {"x"}, {"e"});
  builder.Node("Relu", {"e"}, {"r"});
  builder.Node("Sin", {"r"}, {"s"});
  ModelBuilder::SetInts(builder.Node("MaxPool", {"s"}, {"y"}), "kernel_shape", {2});
  for (const char* dialect : {"caffe", "ssd"}) {
    const std::string error = ImportError(builder, {.dialect = dialect});
    EXPECT_TRUE(Contains(error, "layer \"n_e\": becomes a layer Unary")) << error;
    EXPECT_TRUE(Contains(error, "layer \"n_s\": becomes a layer Unary")) << error;
    EXPECT_TRUE(Contains(error, "its input is 1x2x5")) << error;
    EXPECT_FALSE(Contains(error, "n_r")) << error;
  }
  EXPECT_TRUE(Contains(ImportError(builder, {.dialect = "ncnn"}), "is not caffe or ssd"));
}

TEST(OnnxDialect, NetsThatComputeOtherwiseAreNamed) {
  ModelBuilder builder;
  builder.Input("x", {1, 2}).Output("y");
  builder.Floats("w", {2, 2}, {1, 2, 3, 4});
  builder.Node("Gemm", {"x", "w"}, {"g"});
  builder.Node("Relu", {"g"}, {"y"});
  const ImportedNet net = Import(builder);
  NetFile other;
  other.net = net.net;
  other.net.mutable_layer(1)->mutable_blobs(0)->set_data(0, 1.001F);
  try {
    CheckSameNets(net.net, other, "", 1e-4);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_TRUE(Contains(error.what(), "another blob 'g': it differs by")) << error.what();
  }
}

}  // namespace
}  // namespace crema
