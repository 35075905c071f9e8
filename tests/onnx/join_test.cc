// Groups of nodes that become one layer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model_builder.h"

namespace crema {
namespace {

using test::Import;
using test::LayerTypes;
using test::ModelBuilder;
using Types = std::vector<std::string>;

TEST(OnnxJoin, JoinsGeluByErf) {
  ModelBuilder builder;
  builder.Input("x", {2, 4}).Output("y");
  builder.Floats("root", {}, {1.41421356F});
  builder.Floats("one", {}, {1});
  builder.Floats("half", {}, {0.5F});
  builder.Node("Div", {"x", "root"}, {"d"});
  builder.Node("Erf", {"d"}, {"e"});
  builder.Node("Add", {"e", "one"}, {"a"});
  builder.Node("Mul", {"x", "a"}, {"m"});
  builder.Node("Mul", {"m", "half"}, {"y"});
  EXPECT_EQ(LayerTypes(Import(builder)), Types{"GELU"});
}

TEST(OnnxJoin, LeavesOtherFactors) {
  ModelBuilder builder;
  builder.Input("x", {2, 4}).Output("y");
  builder.Floats("root", {}, {1.41421356F});
  builder.Floats("one", {}, {1});
  builder.Floats("other", {}, {0.75F});
  builder.Node("Div", {"x", "root"}, {"d"});
  builder.Node("Erf", {"d"}, {"e"});
  builder.Node("Add", {"e", "one"}, {"a"});
  builder.Node("Mul", {"x", "a"}, {"m"});
  builder.Node("Mul", {"m", "other"}, {"y"});
  const Types types = LayerTypes(Import(builder));
  EXPECT_EQ(std::ranges::count(types, "GELU"), 0);
}

// Adds the nodes of (x - mean) / sqrt(variance + eps) over the last axis.
void AddNormalization(const std::string& output, float eps, ModelBuilder* builder) {
  builder->Floats("two", {}, {2});
  builder->Floats("eps", {}, {eps});
  const auto mean = [&](const char* from, const char* to) {
    ModelBuilder::SetInts(builder->Node("ReduceMean", {from}, {to}), "axes", {-1});
  };
  mean("x", "m");
  builder->Node("Sub", {"x", "m"}, {"d"});
  builder->Node("Pow", {"d", "two"}, {"p"});
  mean("p", "v");
  builder->Node("Add", {"v", "eps"}, {"ve"});
  builder->Node("Sqrt", {"ve"}, {"s"});
  builder->Node("Div", {"d", "s"}, {output});
}

TEST(OnnxJoin, JoinsLayerNorm) {
  ModelBuilder builder;
  builder.Input("x", {2, 4}).Output("y");
  builder.Floats("gamma", {4}, {1, 2, 3, 4});
  builder.Floats("beta", {4}, {0, 0, 0, 1});
  AddNormalization("n", 1e-5F, &builder);
  builder.Node("Mul", {"n", "gamma"}, {"g"});
  builder.Node("Add", {"g", "beta"}, {"y"});
  const ImportedNet imported = Import(builder);
  EXPECT_EQ(LayerTypes(imported), Types{"LayerNorm"});
  EXPECT_EQ(imported.net.layer(1).blobs_size(), 2);
}

TEST(OnnxJoin, JoinsGates) {
  ModelBuilder builder;
  builder.Input("x", {2, 4}).Output("y").Output("z");
  builder.Node("Sigmoid", {"x"}, {"s"});
  builder.Node("Mul", {"x", "s"}, {"y"});
  builder.Floats("three", {}, {3});
  builder.Floats("zero", {}, {0});
  builder.Floats("six", {}, {6});
  builder.Node("Add", {"x", "three"}, {"a"});
  builder.Node("Clip", {"a", "zero", "six"}, {"c"});
  builder.Node("Mul", {"x", "c"}, {"m"});
  builder.Node("Div", {"m", "six"}, {"z"});
  EXPECT_EQ(LayerTypes(Import(builder)), (Types{"SiLU", "HardSwish"}));
}

TEST(OnnxJoin, JoinsProductAndBias) {
  ModelBuilder builder;
  builder.Input("x", {2, 3, 2}).Output("y");
  builder.Floats("w", {2, 1}, {1, 10});
  builder.Floats("b", {1}, {100});
  builder.Node("MatMul", {"x", "w"}, {"p"});
  builder.Node("Add", {"p", "b"}, {"y"});
  const ImportedNet imported = Import(builder);
  EXPECT_EQ(LayerTypes(imported), Types{"InnerProduct"});
  const auto outputs =
      test::Run(imported, {{"x", {Shape({2, 3, 2}), {1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 1, 0}}}});
  EXPECT_EQ(outputs.at("y").values, (std::vector<float>{121, 143, 165, 100, 100, 101}));
}

// As Paddle's exporter writes it; a convolution whose output others read stays.
TEST(OnnxJoin, JoinsConvolutionAndBias) {
  for (const bool read : {false, true}) {
    ModelBuilder builder;
    builder.Input("x", {1, 1, 1, 2}).Output("y");
    builder.Floats("w", {2, 1, 1, 1}, {1, 10});
    builder.Floats("b", {1, 2, 1, 1}, {100, 200});
    builder.Node("Conv", {"x", "w"}, {"c"});
    builder.Node("Add", {"c", "b"}, {"y"});
    if (read) builder.Output("z").Node("Relu", {"c"}, {"z"});
    const ImportedNet imported = Import(builder);
    EXPECT_EQ(LayerTypes(imported),
              read ? (Types{"Convolution", "Bias", "ReLU"}) : Types{"Convolution"});
    const auto outputs = test::Run(imported, {{"x", {Shape({1, 1, 1, 2}), {3, 4}}}});
    EXPECT_EQ(outputs.at("y").values, (std::vector<float>{103, 104, 230, 240}));
  }
}

// A bias along another axis than the channels is none of the convolution.
TEST(OnnxJoin, LeavesConvolutionAndAnotherAddition) {
  ModelBuilder builder;
  builder.Input("x", {1, 1, 1, 2}).Output("y");
  builder.Floats("w", {2, 1, 1, 1}, {1, 10});
  builder.Floats("b", {2}, {100, 200});
  builder.Node("Conv", {"x", "w"}, {"c"});
  builder.Node("Add", {"c", "b"}, {"y"});
  const auto outputs = test::Run(Import(builder), {{"x", {Shape({1, 1, 1, 2}), {3, 4}}}});
  EXPECT_EQ(outputs.at("y").values, (std::vector<float>{103, 204, 130, 240}));
}

// Attention of two heads, as exporters write it.
TEST(OnnxJoin, JoinsAttentionOfHeads) {
  ModelBuilder builder;
  builder.Input("x", {1, 3, 4}).Output("y");
  builder.Ints("heads", {4}, {0, 0, 2, 2});
  builder.Ints("together", {3}, {0, 0, 4});
  builder.Floats("root", {}, {1.41421356F});
  builder.Node("Reshape", {"x", "heads"}, {"r"});
  ModelBuilder::SetInts(builder.Node("Transpose", {"r"}, {"q"}), "perm", {0, 2, 1, 3});
  ModelBuilder::SetInts(builder.Node("Transpose", {"r"}, {"k"}), "perm", {0, 2, 3, 1});
  builder.Node("MatMul", {"q", "k"}, {"s"});
  builder.Node("Div", {"s", "root"}, {"d"});
  ModelBuilder::SetInt(builder.Node("Softmax", {"d"}, {"p"}), "axis", -1);
  builder.Node("MatMul", {"p", "q"}, {"o"});
  ModelBuilder::SetInts(builder.Node("Transpose", {"o"}, {"t"}), "perm", {0, 2, 1, 3});
  builder.Node("Reshape", {"t", "together"}, {"y"});
  const ImportedNet imported = Import(builder);
  EXPECT_EQ(LayerTypes(imported), Types{"Attention"});
  const auto outputs =
      test::Run(imported, {{"x", {Shape({1, 3, 4}), {1, 0, 2, 0, 0, 1, 0, 2, 1, 1, 1, 1}}}});
  // Head 0 of step 0: scores of (1, 0) with (1, 0), (0, 1), (1, 1), divided by sqrt 2.
  const double a = std::exp(1 / std::sqrt(2.0));
  EXPECT_NEAR(outputs.at("y").values[0], 2 * a / (2 * a + 1), 1e-5);
  EXPECT_NEAR(outputs.at("y").values[1], (1 + a) / (2 * a + 1), 1e-5);
}

// A number that is added to all scores is no mask of the first key.
TEST(OnnxJoin, LeavesAttentionWithARepeatedMask) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{1}, {2, 1}}) {
    ModelBuilder builder;
    builder.Input("q", {1, 2, 2}).Input("k", {1, 2, 2}).Input("v", {1, 2, 2}).Output("y");
    builder.Floats("mask", shape, std::vector<float>(shape[0], 3));
    ModelBuilder::SetInts(builder.Node("Transpose", {"k"}, {"t"}), "perm", {0, 2, 1});
    builder.Node("MatMul", {"q", "t"}, {"s"});
    builder.Node("Add", {"s", "mask"}, {"m"});
    ModelBuilder::SetInt(builder.Node("Softmax", {"m"}, {"p"}), "axis", -1);
    builder.Node("MatMul", {"p", "v"}, {"y"});
    const Shape square({1, 2, 2});
    const auto outputs = test::Run(Import(builder), {{"q", {square, {0, 0, 0, 0}}},
                                                     {"k", {square, {1, 2, 3, 4}}},
                                                     {"v", {square, {1, 2, 3, 4}}}});
    for (const size_t i : {0, 2}) EXPECT_NEAR(outputs.at("y").values[i], 2, 1e-5);
  }
}

// The mean that a LayerNormalization also gives is no normalized value.
TEST(OnnxJoin, LeavesTheMeanOfALayerNorm) {
  ModelBuilder builder;
  builder.Input("x", {1, 2}).Output("y");
  builder.Floats("s", {2}, {1, 1});
  builder.Floats("k", {1}, {1});
  builder.Node("LayerNormalization", {"x", "s"}, {"n", "m"});
  builder.Node("Add", {"m", "k"}, {"y"});
  const auto outputs = test::Run(Import(builder), {{"x", {Shape({1, 2}), {1, 4}}}});
  EXPECT_EQ(outputs.at("y").values, std::vector<float>{3.5F});
}

// Masks of more batches, heads or rows than the queries repeat the scores.
TEST(OnnxJoin, LeavesAttentionWithALargerMask) {
  struct Case {
    std::vector<int64_t> q, mask;
  };
  for (const Case& c : {Case{{1, 2, 2, 2}, {2, 1, 2, 2}}, Case{{1, 1, 2, 2}, {1, 2, 2, 2}},
                        Case{{1, 2, 1, 2}, {3, 2}}}) {
    const std::vector<int64_t> k = {1, c.q[1], 2, 2};
    ModelBuilder builder;
    builder.Input("q", c.q).Input("k", k).Input("v", k).Input("mask", c.mask).Output("y");
    ModelBuilder::SetInts(builder.Node("Transpose", {"k"}, {"t"}), "perm", {0, 1, 3, 2});
    builder.Node("MatMul", {"q", "t"}, {"s"});
    builder.Node("Add", {"s", "mask"}, {"m"});
    ModelBuilder::SetInt(builder.Node("Softmax", {"m"}, {"p"}), "axis", -1);
    builder.Node("MatMul", {"p", "v"}, {"y"});
    const Types types = LayerTypes(Import(builder));
    EXPECT_EQ(std::ranges::count(types, "Attention"), 0);
  }
}

// Four factors of the scores are taken into the attention; a chain of more costs time for each
// node.
TEST(OnnxJoin, LeavesAttentionWithManyFactors) {
  for (const int factors : {4, 5}) {
    ModelBuilder builder;
    builder.Input("q", {1, 2, 2}).Input("k", {1, 2, 2}).Output("y");
    builder.Floats("two", {}, {2});
    ModelBuilder::SetInts(builder.Node("Transpose", {"k"}, {"t"}), "perm", {0, 2, 1});
    builder.Node("MatMul", {"q", "t"}, {"s0"});
    for (int i = 0; i < factors; ++i) {
      builder.Node("Mul", {"s" + std::to_string(i), "two"}, {"s" + std::to_string(i + 1)});
    }
    ModelBuilder::SetInt(builder.Node("Softmax", {"s" + std::to_string(factors)}, {"p"}), "axis",
                         -1);
    builder.Node("MatMul", {"p", "k"}, {"y"});
    const Types types = LayerTypes(Import(builder));
    EXPECT_EQ(std::ranges::count(types, "Attention"), factors == 4 ? 1 : 0);
  }
}

// LayerNorm takes no eps below 0.
TEST(OnnxJoin, LeavesLayerNormWithANegativeEps) {
  ModelBuilder builder;
  builder.Input("x", {2, 4}).Output("y");
  AddNormalization("y", -1e-5F, &builder);
  const Types types = LayerTypes(Import(builder));
  EXPECT_EQ(std::ranges::count(types, "LayerNorm"), 0);
}

TEST(OnnxJoin, JoinsChannelShuffle) {
  ModelBuilder builder;
  builder.Input("x", {1, 4, 1, 1}).Output("y");
  builder.Ints("apart", {5}, {0, 2, 2, 1, 1});
  builder.Ints("together", {4}, {0, 4, 1, 1});
  builder.Node("Reshape", {"x", "apart"}, {"r"});
  ModelBuilder::SetInts(builder.Node("Transpose", {"r"}, {"t"}), "perm", {0, 2, 1, 3, 4});
  builder.Node("Reshape", {"t", "together"}, {"y"});
  const ImportedNet imported = Import(builder);
  EXPECT_EQ(LayerTypes(imported), Types{"ShuffleChannel"});
  const auto outputs = test::Run(imported, {{"x", {Shape({1, 4, 1, 1}), {1, 2, 3, 4}}}});
  EXPECT_EQ(outputs.at("y").values, (std::vector<float>{1, 3, 2, 4}));
}

TEST(OnnxJoin, CancelsTransposePairs) {
  ModelBuilder builder;
  builder.Input("x", {1, 2, 3, 4}).Output("y");
  ModelBuilder::SetInts(builder.Node("Transpose", {"x"}, {"a"}), "perm", {0, 2, 3, 1});
  ModelBuilder::SetInts(builder.Node("Transpose", {"a"}, {"b"}), "perm", {0, 3, 1, 2});
  builder.Node("Relu", {"b"}, {"y"});
  EXPECT_EQ(LayerTypes(Import(builder)), Types{"ReLU"});
}

}  // namespace
}  // namespace crema
