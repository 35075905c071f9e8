// Whole numbers and truth values, which blobs of floats hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
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
using Wholes = std::vector<int64_t>;
using Reals = std::vector<float>;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kMostInt32 = std::numeric_limits<int32_t>::max();

// y = op(x, k) of whole numbers of a type, where k is constant.
ModelBuilder ByConstant(const std::string& op, const Wholes& k, int type = TensorProto::INT64) {
  ModelBuilder builder;
  builder.Input("x", {2}, type).Output("y");
  onnx::TensorProto& tensor = builder.Ints("k", {static_cast<int64_t>(k.size())}, {});
  tensor.set_data_type(type);
  for (const int64_t value : k) {
    if (type == TensorProto::INT64) tensor.add_int64_data(value);
    if (type == TensorProto::UINT64) tensor.add_uint64_data(static_cast<uint64_t>(value));
    if (type != TensorProto::INT64 && type != TensorProto::UINT64) {
      tensor.add_int32_data(static_cast<int32_t>(value));
    }
  }
  builder.Node(op, {"x", "k"}, {"y"});
  return builder;
}

Reals RunX(const ModelBuilder& builder, const Reals& x) {
  const Dims dims = {static_cast<int64_t>(x.size())};
  return test::Run(Import(builder), {{"x", {Shape(dims), x}}}).at("y").values;
}

TEST(OnnxWholeNumbers, ConstantsThatNoFloatIsAreErrorsWithPlaceAndValue) {
  for (const char* op : {"Add", "Mul", "Div", "Mod", "BitwiseAnd", "Max", "MatMul"}) {
    for (const bool scalar : {false, true}) {
      if (scalar && op == std::string("MatMul")) continue;
      ModelBuilder builder = ByConstant(op, scalar ? Wholes{16777217} : Wholes{5, 16777217});
      builder.proto().mutable_opset_import(0)->set_version(18);
      const std::string error = ImportError(builder);
      EXPECT_TRUE(Contains(error, scalar ? "its constant 'k' has 16777217 at element 0; blobs are"
                                         : "its constant 'k' has 16777217 at element 1; blobs are"))
          << op << error;
    }
  }
}

TEST(OnnxWholeNumbers, LargeConstantsThatFloatsHoldAreTaken) {
  EXPECT_EQ(RunX(ByConstant("Max", {1 << 30, std::numeric_limits<int64_t>::min()}), {1, 2}),
            (Reals{0x1p30F, 2}));
}

// 2^63 as a number without a sign; in a signed one it would be negative.
TEST(OnnxWholeNumbers, ConstantsBeyondInt64AreErrors) {
  const std::string error =
      ImportError(ByConstant("Max", {std::numeric_limits<int64_t>::min()}, TensorProto::UINT64));
  EXPECT_TRUE(Contains(error, "'k' has 9223372036854775808 at element 0")) << error;
}

TEST(OnnxWholeNumbers, LimitsOfTypesStayLimitsWhereValuesAreCompared) {
  EXPECT_EQ(RunX(ByConstant("Min", {kMost, kMostInt32}), {3, 4}), (Reals{3, 4}));
  EXPECT_EQ(RunX(ByConstant("Less", {kMost, -kMost}), {3, 4}), (Reals{1, 0}));
  const std::string error = ImportError(ByConstant("Add", {kMost}));
  EXPECT_TRUE(Contains(error, "'k' has 9223372036854775807 at element 0")) << error;
  ModelBuilder clip(13);
  clip.Input("x", {2}, TensorProto::INT64).Output("y");
  clip.Ints("low", {}, {0});
  clip.Ints("high", {}, {kMost});
  clip.Node("Clip", {"x", "low", "high"}, {"y"});
  EXPECT_EQ(RunX(clip, {-3, 4}), (Reals{0, 4}));
}

TEST(OnnxWholeNumbers, ConstantOutputsThatNoFloatIsAreErrors) {
  ModelBuilder builder;
  builder.Input("x", {2}).Output("y").Output("k");
  builder.Ints("k", {2}, {1, -16777217});
  builder.Node("Relu", {"x"}, {"y"});
  EXPECT_TRUE(Contains(ImportError(builder), "output 'k' has -16777217 at element 1"))
      << ImportError(builder);
}

TEST(OnnxWholeNumbers, IndicesBeyondFloatsAreErrors) {
  const std::string wide = "has an axis of 16777218 elements";
  const auto error = [](int64_t size, const std::string& op, bool constant = false) {
    ModelBuilder builder;
    builder.Input("x", {size}).Output("y");
    if (constant) builder.Ints("i", {1}, {16777216});
    if (!constant) builder.Input("i", {1}, TensorProto::INT64);
    builder.Node(
        op, op == "ArgMax" ? std::vector<std::string>{"x"} : std::vector<std::string>{"x", "i"},
        {"y"});
    return ImportError(builder);
  };
  for (const char* op : {"Gather", "GatherElements", "ArgMax"}) {
    EXPECT_TRUE(Contains(error(16777218, op), wide)) << error(16777218, op);
    EXPECT_EQ(error(16777217, op), "");
  }
  EXPECT_EQ(error(16777218, "Gather", true), "");
}

// y = op(a, b), where both are constants and y is read as a float.
Reals Folded(const std::string& op, int type, const Wholes& a, const Wholes& b) {
  ModelBuilder builder;
  builder.Input("x", {1}).Output("y");
  for (const auto& [name, values] : std::map<std::string, Wholes>{{"a", a}, {"b", b}}) {
    onnx::TensorProto& tensor = builder.Ints(name, {1}, {});
    tensor.set_data_type(type);
    for (const int64_t value : values) tensor.add_int32_data(static_cast<int32_t>(value));
  }
  builder.Node(op, {"a", "b"}, {"c"});
  ModelBuilder::SetInt(builder.Node("Cast", {"c"}, {"f"}), "to", TensorProto::FLOAT);
  builder.Node("Add", {"x", "f"}, {"y"});
  return RunX(builder, {0});
}

TEST(OnnxWholeNumbers, FoldedArithmeticWraps) {
  EXPECT_EQ(Folded("Add", TensorProto::UINT8, {200}, {100}), Reals{44});
  EXPECT_EQ(Folded("Sub", TensorProto::UINT8, {3}, {5}), Reals{254});
  EXPECT_EQ(Folded("Mul", TensorProto::INT32, {1 << 30}, {2}), Reals{-0x1p31F});
  EXPECT_EQ(Folded("Add", TensorProto::INT32, {kMostInt32}, {1}), Reals{-0x1p31F});
}

// y = op(x, z), both known only when the net runs.
Reals Computed(const std::string& op, int type, const Reals& x, const Reals& z,
               const std::string& direction = "") {
  ModelBuilder builder;
  const Dims dims = {static_cast<int64_t>(x.size())};
  builder.Input("x", dims, type).Input("z", dims, type).Output("y");
  onnx::NodeProto& node = builder.Node(op, {"x", "z"}, {"y"});
  if (!direction.empty()) ModelBuilder::SetString(node, "direction", direction);
  const auto outputs =
      test::Run(Import(builder), {{"x", {Shape(dims), x}}, {"z", {Shape(dims), z}}});
  return outputs.at("y").values;
}

TEST(OnnxWholeNumbers, ArithmeticOfFewBitsWraps) {
  EXPECT_EQ(Computed("Add", TensorProto::UINT8, {200, 1}, {100, 2}), (Reals{44, 3}));
  EXPECT_EQ(Computed("Sub", TensorProto::UINT8, {3, 5}, {5, 3}), (Reals{254, 2}));
  EXPECT_EQ(Computed("Mul", TensorProto::INT8, {100, -7}, {2, 3}), (Reals{-56, -21}));
  EXPECT_EQ(Computed("Add", TensorProto::FLOAT16, {200, 300}, {100, 2}), (Reals{300, 302}));
}

// The error of a run; empty when it succeeds.
std::string RunError(const ModelBuilder& builder,
                     const std::map<std::string, test::ShapedValues>& inputs) {
  try {
    test::Run(Import(builder), inputs);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// y = op(x, z) with x = (1, a) and z = (1, b), of int64 or another type.
std::string ComputedError(const std::string& op, float a, float b, int type = TensorProto::INT64) {
  ModelBuilder builder;
  builder.Input("x", {1, 2}, type).Input("z", {1, 2}, type).Output("y");
  onnx::NodeProto& node = builder.Node(op, {"x", "z"}, {"y"});
  if (op == "Gemm") ModelBuilder::SetInt(node, "transB", 1);
  if (op == "Einsum") ModelBuilder::SetString(node, "equation", "ab,ab->ab");
  return RunError(builder, {{"x", {Shape({1, 2}), {1, a}}}, {"z", {Shape({1, 2}), {1, b}}}});
}

TEST(OnnxWholeNumbers, ComputedNumbersFrom2To24OnAreErrorsWithLayerPlaceAndValue) {
  const std::string error = ComputedError("Add", 0x1p23F, 0x1p23F + 2);
  EXPECT_TRUE(Contains(error,
                       "element 1 (sample 0 of the batch) is about 16777218: whole "
                       "numbers are computed as float32"))
      << error;
  EXPECT_TRUE(Contains(error, "layer \"n_y\"")) << error;
  EXPECT_EQ(ComputedError("Add", 0x1p23F, 0x1p23F - 1), "");
  // 2^24 + 1, which was rounded to 2^24.
  EXPECT_TRUE(Contains(ComputedError("Add", 0x1p24F, 1), "16777216: whole"));
  EXPECT_TRUE(Contains(ComputedError("Sub", -0x1p23F, 0x1p23F), "is about -16777216"));
  EXPECT_EQ(ComputedError("Add", 0x1p24F, 1, TensorProto::FLOAT), "");
  EXPECT_TRUE(Contains(ComputedError("Sub", 3, 5, TensorProto::UINT32), "is about 4294967296"));
  EXPECT_EQ(ComputedError("Sub", 5, 3, TensorProto::UINT32), "");
  // 2^32 + 131073, of which 131073 stay; a rounded product leaves 131072.
  EXPECT_TRUE(Contains(ComputedError("Mul", 65537, 65537, TensorProto::UINT32), "is about"));
}

TEST(OnnxWholeNumbers, EachOperatorThatComputesIsChecked) {
  for (const int type :
       {TensorProto::INT32, TensorProto::INT64, TensorProto::UINT32, TensorProto::UINT64}) {
    for (const char* op : {"Add", "Mul", "Pow", "Gemm", "Einsum"}) {
      EXPECT_EQ(ComputedError(op, 5, 3, type), "") << op;
      EXPECT_TRUE(Contains(ComputedError(op, 0x1p24F, 5, type), "are computed as float32")) << op;
    }
  }
  // Results that depend on large numbers, which were only moved so far.
  const std::map<std::string, std::pair<float, float>> large = {
      {"Div", {0x1p40F, 1}}, {"Mod", {-1, 0x1p40F}}, {"PRelu", {-0x1p40F, 2}}};
  for (const auto& [op, operands] : large) {
    EXPECT_TRUE(Contains(ComputedError(op, operands.first, operands.second), "float32")) << op;
  }
}

TEST(OnnxWholeNumbers, OperatorsOfOneInputAreChecked) {
  for (const std::string op :
       {"Neg", "Abs", "CumSum", "CumProd", "ReduceSum", "ReduceProd", "ReduceL1", "ReduceL2",
        "ReduceSumSquare", "ReduceMean", "ScatterElements"}) {
    ModelBuilder builder(26);
    builder.Input("x", {2}, TensorProto::INT64).Output("y");
    builder.Ints("axis", {}, {0});
    builder.Ints("at", {1}, {0});
    builder.Ints("one", {1}, {1});
    std::vector<std::string> inputs = {"x"};
    if (op.starts_with("Cum")) inputs = {"x", "axis"};
    if (op == "ScatterElements") inputs = {"x", "at", "one"};
    onnx::NodeProto& node = builder.Node(op, inputs, {"y"});
    if (op == "ScatterElements") ModelBuilder::SetString(node, "reduction", "add");
    EXPECT_TRUE(Contains(RunError(builder, {{"x", {Shape({2}), {0x1p24F, 0x1p24F}}}}),
                         "whole numbers are computed as float32"))
        << op;
    EXPECT_EQ(RunError(builder, {{"x", {Shape({2}), {3, 4}}}}), "") << op;
  }
}

// 257 of 255 * 255 are below 2^24, 259 are not.
TEST(OnnxWholeNumbers, ProductsOfBytesAreChecked) {
  for (const int64_t size : {257, 259}) {
    for (const char* op : {"MatMulInteger", "ConvInteger"}) {
      const bool conv = op[0] == 'C';
      const Dims a = conv ? Dims{1, size, 1} : Dims{1, size};
      const Dims b = conv ? Dims{1, size, 1} : Dims{size, 1};
      ModelBuilder builder;
      builder.Input("x", a, TensorProto::UINT8).Output("y");
      onnx::TensorProto& weights = builder.Ints("w", b, {});
      weights.set_data_type(TensorProto::UINT8);
      for (int64_t i = 0; i < size; ++i) weights.add_int32_data(255);
      builder.Node(op, {"x", "w"}, {"y"});
      const std::string error =
          RunError(builder, {{"x", {Shape(a), Reals(static_cast<size_t>(size), 255)}}});
      EXPECT_EQ(Contains(error, "is about 16841"), size == 259) << op << error;
      EXPECT_EQ(error.empty(), size == 257) << op << error;
    }
  }
}

TEST(OnnxWholeNumbers, SumsMayBeLargeOnTheWay) {
  ModelBuilder builder;
  builder.Input("x", {3}, TensorProto::INT64).Output("y");
  builder.Node("ReduceSum", {"x"}, {"y"});
  EXPECT_EQ(RunX(builder, {0x1p24F, 1, -0x1p24F}), Reals{1});
}

TEST(OnnxWholeNumbers, MovedAndComparedNumbersAreNotChecked) {
  ModelBuilder builder;
  builder.Input("x", {2}, TensorProto::INT64).Input("c", {2}, TensorProto::BOOL).Output("y");
  builder.Ints("least", {}, {std::numeric_limits<int64_t>::min()});
  builder.Node("Where", {"c", "x", "least"}, {"where"});
  builder.Node("Max", {"where", "x"}, {"max"});
  builder.Node("Concat", {"max", "where"}, {"y"});
  ModelBuilder::SetInt(*builder.graph().mutable_node(2), "axis", 0);
  EXPECT_EQ(
      test::Run(Import(builder), {{"x", {Shape({2}), {5e9F, 3}}}, {"c", {Shape({2}), {1, 0}}}})
          .at("y")
          .values,
      (Reals{5e9F, 3, 5e9F, -0x1p63F}));
}

TEST(OnnxWholeNumbers, CastsToFloatsMayRoundWhatWasComputed) {
  ModelBuilder builder;
  builder.Input("x", {2}, TensorProto::INT64).Output("y");
  builder.Node("Add", {"x", "x"}, {"sum"});
  ModelBuilder::SetInt(builder.Node("Cast", {"sum"}, {"y"}), "to", TensorProto::FLOAT);
  EXPECT_EQ(RunX(builder, {0x1p24F, 3}), (Reals{0x1p25F, 6}));
  EXPECT_EQ(std::ranges::count(test::LayerTypes(Import(builder)), "CheckWhole"), 0);
  ModelBuilder also = builder;
  also.Output("z").Node("Neg", {"sum"}, {"z"});
  const std::string error = RunError(also, {{"x", {Shape({2}), {0x1p24F, 3}}}});
  EXPECT_TRUE(Contains(error, "layer \"n_sum\"")) << error;
}

// The float nearest to the quotient, 4993894.9999, is the next whole number.
TEST(OnnxWholeNumbers, QuotientsOfLargeNumbersAreCutExactly) {
  EXPECT_EQ(Computed("Div", TensorProto::INT64, {562762022912.0F, 7}, {112690, 2}),
            (Reals{4993894, 3}));
}

// A product of 16 bits wraps if floats hold it.
TEST(OnnxWholeNumbers, ProductsOf16BitsAreChecked) {
  EXPECT_EQ(Computed("Mul", TensorProto::INT16, {300, 2}, {300, 2}), (Reals{24464, 4}));
  EXPECT_TRUE(Contains(ComputedError("Mul", 30001, 30001, TensorProto::INT16), "float32"));
}

TEST(OnnxWholeNumbers, ShiftsWrapAndShiftAllBitsOut) {
  const auto left = [](int type, const Reals& x, const Reals& by) {
    return Computed("BitShift", type, x, by, "LEFT");
  };
  const auto right = [](int type, const Reals& x, const Reals& by) {
    return Computed("BitShift", type, x, by, "RIGHT");
  };
  EXPECT_EQ(left(TensorProto::INT8, {64, 1, -64, 5, -8}, {1, 7, 1, 8, 127}),
            (Reals{-128, -128, -128, 0, 0}));
  EXPECT_EQ(left(TensorProto::INT32, {0x1p30F, 1, -0x1p30F, 3}, {1, 31, 1, 2}),
            (Reals{-0x1p31F, -0x1p31F, -0x1p31F, 12}));
  EXPECT_EQ(left(TensorProto::INT32, {-8, 4, -1}, {32, -1, 100}), (Reals{0, 0, 0}));
  EXPECT_EQ(left(TensorProto::UINT64, {1, 3}, {63, 64}), (Reals{0x1p63F, 0}));
  EXPECT_EQ(left(TensorProto::UINT8, {255, 3}, {1, 200}), (Reals{254, 0}));
  EXPECT_EQ(right(TensorProto::INT32, {-8, 4, -1, -8}, {-1, -32, -64, 1}), (Reals{-1, 0, -1, -4}));
}

TEST(OnnxWholeNumbers, CastsToInt64AreNotKeptWithinInt32) {
  ModelBuilder builder;
  builder.Input("x", {4}).Output("y");
  ModelBuilder::SetInt(builder.Node("Cast", {"x"}, {"y"}), "to", TensorProto::INT64);
  EXPECT_EQ(RunX(builder, {5e9F, -2.5F, 2.5F, -0x1p63F}), (Reals{5e9F, -2, 2, -0x1p63F}));
}

TEST(OnnxWholeNumbers, ConstantsAreCastToTheEndsOfInt64) {
  ModelBuilder builder;
  builder.Input("x", {1}).Output("y");
  builder.Floats("k", {1}, {-0x1p63F});
  ModelBuilder::SetInt(builder.Node("Cast", {"k"}, {"i"}), "to", TensorProto::INT64);
  ModelBuilder::SetInt(builder.Node("Cast", {"i"}, {"f"}), "to", TensorProto::FLOAT);
  builder.Node("Add", {"x", "f"}, {"y"});
  EXPECT_EQ(RunX(builder, {0}), Reals{-0x1p63F});
}

TEST(OnnxWholeNumbers, TruthValuesAreZeroAndOne) {
  ModelBuilder builder;
  builder.Input("x", {3}).Output("y").Output("b");
  ModelBuilder::SetInt(builder.Node("Cast", {"x"}, {"b"}), "to", TensorProto::BOOL);
  builder.Node("Not", {"b"}, {"y"});
  const auto outputs = test::Run(Import(builder), {{"x", {Shape({3}), {0.5F, 0, -7}}}});
  EXPECT_EQ(outputs.at("b").values, (Reals{1, 0, 1}));
  EXPECT_EQ(outputs.at("y").values, (Reals{0, 1, 0}));
}

TEST(OnnxWholeNumbers, TheImportSaysTheTypesThatAreNoFloats) {
  ModelBuilder builder;
  builder.Input("x", {3})
      .Input("i", {3}, TensorProto::INT32)
      .Output("best")
      .Output("y")
      .Output("i");
  builder.Node("ArgMax", {"x"}, {"best"});
  builder.Node("Equal", {"i", "i"}, {"y"});
  EXPECT_EQ(Import(builder).types,
            (std::map<std::string, std::string>{
                {"best", "int64"}, {"i", "int32"}, {"i_2", "int32"}, {"y", "bool"}}));
}

TEST(OnnxWholeNumbers, InputsThatAreNoNumbersAreErrorsWithTheirOperator) {
  ModelBuilder text;
  text.Input("x", {2}, TensorProto::STRING).Output("y");
  text.Node("StringNormalizer", {"x"}, {"y"});
  EXPECT_TRUE(Contains(ImportError(text),
                       "input 'x' is of string, which node 'n_y' "
                       "(StringNormalizer) reads; Crema takes tensors of numbers"))
      << ImportError(text);
  ModelBuilder sequence;
  sequence.Output("y").Node("SequenceLength", {"x"}, {"y"});
  auto* input = sequence.graph().add_input();
  input->set_name("x");
  input->mutable_type()->mutable_sequence_type();
  EXPECT_TRUE(Contains(ImportError(sequence), "input 'x' is no tensor, which node 'n_y'"))
      << ImportError(sequence);
  ModelBuilder training;
  training.Input("x", {2}).Output("y");
  training.Node("Gradient", {"x"}, {"y"}).set_domain("ai.onnx.preview.training");
  EXPECT_TRUE(Contains(ImportError(training), "(ai.onnx.preview.training.Gradient)"))
      << ImportError(training);
  EXPECT_TRUE(Contains(ImportError(training), "is an operator of training"));
}

}  // namespace
}  // namespace crema
