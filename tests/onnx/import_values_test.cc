// ShapedValues at the edges of operators' definitions, and nodes that are wrong.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "model_builder.h"
#include "support/error_text.h"

namespace crema {
namespace {

using onnx::TensorProto;
using test::Contains;
using test::Import;
using test::ImportError;
using test::ModelBuilder;
using Dims = std::vector<int64_t>;
using Numbers = std::vector<float>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Runs a model with the input x; returns its outputs.
std::map<std::string, test::ShapedValues> RunX(const ModelBuilder& builder, const Dims& dims,
                                               const Numbers& x) {
  return test::Run(Import(builder), {{"x", {Shape(dims), x}}});
}

// Returns the folded value "c" of a model.
Numbers Folded(ModelBuilder builder, const Dims& dims) {
  builder.Input("x", dims).Output("y");
  builder.Node("Add", {"x", "c"}, {"y"});
  return RunX(builder, dims, Numbers(static_cast<size_t>(Shape(dims).count()), 0)).at("y").values;
}

TEST(OnnxValues, QuantizesZerosToZeros) {
  ModelBuilder builder;
  builder.Input("x", {3}).Output("y").Output("zero");
  builder.Node("DynamicQuantizeLinear", {"x"}, {"q", "scale", "zero"});
  builder.Node("DequantizeLinear", {"q", "scale", "zero"}, {"y"});
  const auto outputs = RunX(builder, {3}, {0, 0, 0});
  EXPECT_EQ(outputs.at("y").values, (Numbers{0, 0, 0}));
  EXPECT_EQ(outputs.at("zero").values, Numbers{0});
}

TEST(OnnxValues, ResizeKeepsTheRatioOfAllAxes) {
  for (const std::string policy : {"not_larger", "not_smaller"}) {
    ModelBuilder builder(18);
    builder.Input("x", {1, 1, 2, 4}).Output("y");
    builder.Ints("sizes", {2}, {2, 8});
    onnx::NodeProto& node = builder.Node("Resize", {"x", "", "", "sizes"}, {"y"});
    ModelBuilder::SetInts(node, "axes", {2, 3});
    ModelBuilder::SetString(node, "keep_aspect_ratio_policy", policy);
    const Shape shape = RunX(builder, {1, 1, 2, 4}, Numbers(8, 1)).at("y").shape;
    EXPECT_EQ(shape, policy == "not_larger" ? Shape({1, 1, 2, 4}) : Shape({1, 1, 4, 8}));
  }
}

TEST(OnnxValues, CastsBetweenSignsWrap) {
  const auto cast = [](int from, int to, const Numbers& x) {
    ModelBuilder builder;
    builder.Input("x", {2}, from).Output("y");
    ModelBuilder::SetInt(builder.Node("Cast", {"x"}, {"y"}), "to", to);
    return RunX(builder, {2}, x).at("y").values;
  };
  EXPECT_EQ(cast(TensorProto::INT8, TensorProto::UINT8, {-1, -128}), (Numbers{255, 128}));
  EXPECT_EQ(cast(TensorProto::UINT8, TensorProto::INT8, {200, 5}), (Numbers{-56, 5}));
  EXPECT_EQ(cast(TensorProto::INT8, TensorProto::UINT16, {-1, 5}), (Numbers{65535, 5}));
  EXPECT_EQ(cast(TensorProto::UINT8, TensorProto::INT16, {200, 5}), (Numbers{200, 5}));
}

TEST(OnnxValues, SlicesBackFromBeforeTheFirstElement) {
  ModelBuilder builder;
  builder.Input("x", {5}).Output("y");
  builder.Ints("start", {1}, {-10});
  builder.Ints("end", {1}, {-100});
  builder.Ints("axis", {1}, {0});
  builder.Ints("step", {1}, {-1});
  builder.Node("Slice", {"x", "start", "end", "axis", "step"}, {"y"});
  EXPECT_EQ(RunX(builder, {5}, {7, 1, 2, 3, 4}).at("y").values, Numbers{7});
}

// Nothing of the axis is read, in shape arithmetic and in a graph.
TEST(OnnxValues, SlicesEmptyAxesBack) {
  ModelBuilder builder;
  builder.Input("x", {6}).Output("y");
  builder.Ints("none", {0}, {});
  builder.Ints("six", {1}, {6});
  builder.Ints("start", {1}, {-1});
  builder.Ints("end", {1}, {std::numeric_limits<int64_t>::min()});
  builder.Ints("axis", {1}, {0});
  builder.Ints("step", {1}, {-1});
  builder.Node("Slice", {"none", "start", "end", "axis", "step"}, {"back"});
  ModelBuilder::SetInt(builder.Node("Concat", {"back", "six"}, {"shape"}), "axis", 0);
  builder.Node("Reshape", {"x", "shape"}, {"y"});
  EXPECT_EQ(RunX(builder, {6}, {7, 1, 2, 3, 4, 5}).at("y").values, (Numbers{7, 1, 2, 3, 4, 5}));
}

TEST(OnnxValues, OperatorsOnWholeNumbersGiveWholeNumbers) {
  ModelBuilder builder;
  builder.Input("x", {1, 1, 1, 2}, TensorProto::INT64).Output("mean").Output("pow").Output("l2");
  builder.Floats("half", {}, {0.5F});
  ModelBuilder::SetInts(builder.Node("ReduceMean", {"x"}, {"mean"}), "axes", {2, 3});
  ModelBuilder::SetInts(builder.Node("ReduceL2", {"x"}, {"l2"}), "axes", {2, 3});
  builder.Node("Pow", {"x", "half"}, {"pow"});
  auto outputs = RunX(builder, {1, 1, 1, 2}, {1, 2});
  EXPECT_EQ(outputs.at("mean").values, Numbers{1});
  EXPECT_EQ(outputs.at("l2").values, Numbers{2});
  EXPECT_EQ(outputs.at("pow").values, (Numbers{1, 1}));
  outputs = RunX(builder, {1, 1, 1, 2}, {-1, -2});
  EXPECT_EQ(outputs.at("mean").values, Numbers{-1});
}

TEST(OnnxValues, FoldsReductionsOfNoAxes) {
  ModelBuilder builder(18);
  builder.Floats("k", {2}, {3, -2});
  ModelBuilder::SetInt(builder.Node("ReduceSumSquare", {"k"}, {"c"}), "noop_with_empty_axes", 1);
  EXPECT_EQ(Folded(builder, {2}), (Numbers{9, 4}));
}

TEST(OnnxValues, FoldsRangesOfLargeNumbers) {
  ModelBuilder builder;
  builder.Ints("start", {}, {16777217});
  builder.Ints("limit", {}, {16777219});
  builder.Ints("delta", {}, {1});
  builder.Node("Range", {"start", "limit", "delta"}, {"range"});
  builder.Node("Sub", {"range", "start"}, {"whole"});
  ModelBuilder::SetInt(builder.Node("Cast", {"whole"}, {"c"}), "to", TensorProto::FLOAT);
  EXPECT_EQ(Folded(builder, {2}), (Numbers{0, 1}));
}

TEST(OnnxValues, FoldsLogarithmsOfLargeSums) {
  ModelBuilder builder(13);
  builder.Floats("k", {2}, {1000, 999});
  builder.Node("ReduceLogSumExp", {"k"}, {"c"});
  EXPECT_NEAR(Folded(builder, {1})[0], 1000.3133, 1e-3);
}

TEST(OnnxValues, FoldedMaximumOfNanIsNan) {
  for (const bool first : {false, true}) {
    ModelBuilder builder;
    builder.Floats("a", {2}, {kNan, 1});
    builder.Floats("b", {2}, {2, 2});
    builder.Node("Max", {first ? "a" : "b", first ? "b" : "a"}, {"c"});
    const Numbers y = Folded(builder, {2});
    EXPECT_TRUE(std::isnan(y[0]));
    EXPECT_EQ(y[1], 2);
  }
}

TEST(OnnxValues, ClipsToTheUpperBoundIfTheLowerOneIsAboveIt) {
  for (const int opset : {6, 13}) {
    ModelBuilder builder(opset);
    builder.Input("x", {3}).Output("y");
    builder.Floats("low", {}, {2});
    builder.Floats("high", {}, {1});
    onnx::NodeProto& node = opset < 11 ? builder.Node("Clip", {"x"}, {"y"})
                                       : builder.Node("Clip", {"x", "low", "high"}, {"y"});
    for (const char* name : {"min", "max"}) {
      if (opset >= 11) continue;
      auto* attribute = node.add_attribute();
      attribute->set_name(name);
      attribute->set_type(onnx::AttributeProto::FLOAT);
      attribute->set_f(name == std::string("min") ? 2.0F : 1.0F);
    }
    EXPECT_EQ(RunX(builder, {3}, {0, 1.5F, 3}).at("y").values, (Numbers{1, 1, 1})) << opset;
  }
}

TEST(OnnxValues, NormalizesABatchOfNumbers) {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("y");
  for (const char* name : {"s", "b", "m"}) builder.Floats(name, {1}, {2});
  builder.Floats("v", {1}, {4});
  builder.Node("BatchNormalization", {"x", "s", "b", "m", "v"}, {"y"});
  const auto y = RunX(builder, {2}, {2, 4}).at("y");
  EXPECT_EQ(y.shape, Shape({2}));
  EXPECT_NEAR(y.values[0], 2, 1e-4);
  EXPECT_NEAR(y.values[1], 4, 1e-4);
}

TEST(OnnxValues, NanTimesZeroIsNan) {
  ModelBuilder builder;
  builder.Input("x", {3}).Output("y");
  builder.Floats("zero", {}, {0});
  builder.Node("Mul", {"x", "zero"}, {"y"});
  const Numbers y = RunX(builder, {3}, {kNan, kInfinity, 1}).at("y").values;
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_EQ(y[2], 0);
}

TEST(OnnxValues, AddsInfinity) {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("y");
  builder.Floats("k", {}, {kInfinity});
  builder.Node("Add", {"x", "k"}, {"y"});
  EXPECT_EQ(RunX(builder, {2}, {1, -1}).at("y").values, (Numbers{kInfinity, kInfinity}));
}

// The layers of a node get names that no other value has.
TEST(OnnxValues, NamesOfLayersAreNoNamesOfValues) {
  ModelBuilder builder;
  builder.Input("x", {2}).Input("z", {2}).Output("b").Output("a/Eltwise");
  builder.Node("Mean", {"x", "z"}, {"a"});
  builder.Node("Exp", {"a"}, {"b"});
  builder.Node("Relu", {"x"}, {"a/Eltwise"});
  const auto outputs =
      test::Run(Import(builder), {{"x", {Shape({2}), {1, -3}}}, {"z", {Shape({2}), {-1, 3}}}});
  EXPECT_EQ(outputs.at("a/Eltwise").values, (Numbers{1, 0}));
  EXPECT_EQ(outputs.at("b").values, (Numbers{1, 1}));
}

// A function that a branch calls: Twice(v) = v + v.
ModelBuilder CallInBranch(const Dims& dims) {
  ModelBuilder builder;
  builder.Input("x", dims).Output("y");
  onnx::TensorProto& condition = builder.Ints("on", {}, {});
  condition.set_data_type(TensorProto::BOOL);
  condition.add_int32_data(1);
  onnx::NodeProto& node = builder.Node("If", {"on"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    onnx::GraphProto& branch = ModelBuilder::SetGraph(node, name);
    ModelBuilder::AddNode(&branch, "Twice", {"x"}, {"r"}).set_domain("local");
    branch.add_output()->set_name("r");
  }
  onnx::FunctionProto* function = builder.proto().add_functions();
  function->set_name("Twice");
  function->set_domain("local");
  function->add_input("v");
  function->add_output("w");
  function->add_opset_import()->set_version(17);
  ModelBuilder::AddNode(function, "Identity", {"v"}, {"u"});
  ModelBuilder::AddNode(function, "Add", {"v", "u"}, {"w"});
  return builder;
}

TEST(OnnxValues, BranchesCallFunctions) {
  EXPECT_EQ(RunX(CallInBranch({1}), {1}, {3}).at("y").values, Numbers{6});
}

// Softmax of opset 11 takes all axes from axis 1 on together.
TEST(OnnxValues, BranchesCallFunctionsOfOtherOpsets) {
  ModelBuilder builder = CallInBranch({1, 2, 2});
  onnx::FunctionProto* function = builder.proto().mutable_functions(0);
  function->mutable_opset_import(0)->set_version(11);
  function->mutable_node(0)->set_op_type("Softmax");
  EXPECT_EQ(RunX(builder, {1, 2, 2}, Numbers(4, 1)).at("y").values, Numbers(4, 1.25F));
}

TEST(OnnxValues, NodesWithoutOneOpsetAreErrors) {
  ModelBuilder function = CallInBranch({1});
  function.proto().mutable_functions(0)->clear_opset_import();
  EXPECT_TRUE(Contains(ImportError(function), "its function does not say of which opset"))
      << ImportError(function);
  ModelBuilder newer = CallInBranch({1});
  newer.proto().mutable_functions(0)->mutable_opset_import(0)->set_version(99);
  EXPECT_TRUE(Contains(ImportError(newer), "is of opset 99")) << ImportError(newer);
  ModelBuilder none;
  none.Input("x", {1}).Output("y").Node("Neg", {"x"}, {"y"});
  none.proto().mutable_opset_import(0)->set_domain("ai.onnx.ml");
  EXPECT_TRUE(Contains(ImportError(none), "the file does not say of which opset"))
      << ImportError(none);
  ModelBuilder two;
  two.Input("x", {1}).Output("y").Node("Neg", {"x"}, {"y"});
  auto* other = two.proto().add_opset_import();
  other->set_domain("ai.onnx");
  other->set_version(11);
  EXPECT_TRUE(Contains(ImportError(two), "is of two opsets, 17 and 11")) << ImportError(two);
}

TEST(OnnxValues, TransposesConstantsByAxesFromTheEnd) {
  ModelBuilder builder;
  builder.Input("x", {3, 2}).Output("y");
  builder.Floats("k", {2, 3}, {1, 2, 3, 4, 5, 6});
  ModelBuilder::SetInts(builder.Node("Transpose", {"k"}, {"t"}), "perm", {1, -2});
  builder.Node("Add", {"x", "t"}, {"y"});
  EXPECT_EQ(RunX(builder, {3, 2}, Numbers(6, 0)).at("y").values, (Numbers{1, 4, 2, 5, 3, 6}));
}

// As quantize_dynamic of ONNX Runtime writes convolutions: the zero point is computed.
TEST(OnnxValues, ConvolvesBytesOfAComputedZeroPoint) {
  ModelBuilder builder;
  builder.Input("x", {1, 1, 1, 3}).Output("y");
  onnx::TensorProto& weights = builder.Ints("w", {1, 1, 1, 2}, {});
  weights.set_data_type(TensorProto::INT8);
  for (const int value : {3, -2}) weights.add_int32_data(value);
  builder.Node("DynamicQuantizeLinear", {"x"}, {"q", "scale", "zero"});
  builder.Node("ConvInteger", {"q", "w", "zero"}, {"c"});
  ModelBuilder::SetInt(builder.Node("Cast", {"c"}, {"f"}), "to", TensorProto::FLOAT);
  builder.Node("Mul", {"f", "scale"}, {"y"});
  const Numbers y = RunX(builder, {1, 1, 1, 3}, {-1, 0, 1.55F}).at("y").values;  // scale 0.01
  ASSERT_EQ(y.size(), 2U);
  EXPECT_NEAR(y[0], -3, 1e-4);
  EXPECT_NEAR(y[1], -3.1, 1e-4);
}

TEST(OnnxValues, SaysWhyConstantsAreNotComputed) {
  ModelBuilder large;
  large.Input("x", {1}).Output("y");
  large.Ints("shape", {1}, {1 << 21});
  large.Node("ConstantOfShape", {"shape"}, {"c"});
  large.Node("Add", {"x", "c"}, {"y"});
  EXPECT_TRUE(Contains(ImportError(large), "1048576 elements")) << ImportError(large);
  ModelBuilder computed;
  computed.Input("x", {1}).Output("y");
  computed.Node("NonZero", {"x"}, {"y"});
  EXPECT_TRUE(Contains(ImportError(computed), "on constants alone")) << ImportError(computed);
}

TEST(OnnxValues, RefusesUnknownChoicesAndMissingAttributes) {
  const auto error = [](const char* op, const std::function<void(onnx::NodeProto&)>& change) {
    ModelBuilder builder;
    builder.Input("x", {1, 2, 4, 4}).Output("y");
    builder.Floats("w", {1, 2, 1, 1}, {1, 1});
    builder.Ints("places", {1, 2, 4, 4}, std::vector<int64_t>(32, 0));
    change(builder.Node(op, {"x"}, {"y"}));
    return ImportError(builder);
  };
  EXPECT_TRUE(Contains(error("Conv",
                             [](onnx::NodeProto& node) {
                               node.add_input("w");
                               ModelBuilder::SetString(node, "auto_pad", "FOO");
                             }),
                       "auto_pad is 'FOO', not one of: NOTSET"));
  EXPECT_TRUE(Contains(error("Conv",
                             [](onnx::NodeProto& node) {
                               node.add_input("w");
                               ModelBuilder::SetInts(node, "pads", {-1, -1, -1, -1});
                             }),
                       "pads has an entry of -1"));
  EXPECT_TRUE(Contains(error("MaxUnpool",
                             [](onnx::NodeProto& node) {
                               node.add_input("places");
                               ModelBuilder::SetInts(node, "kernel_shape", {1, 1});
                               ModelBuilder::SetInts(node, "pads", {3, 3, 3, 3});
                             }),
                       "pads that leave nothing"));
  EXPECT_TRUE(Contains(error("Cast", [](onnx::NodeProto&) {}), "no attribute to"));
  EXPECT_TRUE(Contains(error("Concat", [](onnx::NodeProto& node) { node.add_input("x"); }),
                       "no attribute axis"));
}

TEST(OnnxValues, RefusesAnotherSizeThanThatOfTheWeights) {
  for (const bool size : {false, true}) {
    ModelBuilder builder;
    builder.Input("x", {2, 1, 1}).Output("y");
    builder.Floats("w", {1, 1, 1}, {1});
    builder.Floats("r", {1, 1, 1}, {1});
    onnx::NodeProto& node = builder.Node("RNN", {"x", "w", "r"}, {"y"});
    if (size) ModelBuilder::SetInt(node, "hidden_size", 2);
    if (!size) ModelBuilder::SetString(node, "direction", "up");
    EXPECT_TRUE(Contains(ImportError(builder), size ? "hidden_size is 2" : "direction is 'up'"));
  }
}

// Initializers of strings do no harm if nothing reads them; all nodes that read one are listed.
TEST(OnnxValues, ListsNodesThatReadStrings) {
  ModelBuilder builder;
  builder.Input("x", {1}).Output("y");
  onnx::TensorProto& text = builder.Ints("text", {1}, {});
  text.set_data_type(TensorProto::STRING);
  text.add_string_data("a");
  builder.Node("Relu", {"x"}, {"y"});
  EXPECT_EQ(RunX(builder, {1}, {2}).at("y").values, Numbers{2});
  builder.Output("a").Output("b").Node("StringConcat", {"text", "text"}, {"a"});
  builder.Node("Unknown", {"x"}, {"b"});
  const std::string error = ImportError(builder);
  EXPECT_TRUE(Contains(error, "tensor 'text' has elements of string")) << error;
  EXPECT_TRUE(Contains(error, "(Unknown)")) << error;
}

}  // namespace
}  // namespace crema
