// Chains of reshapes and transposes.
#include <gtest/gtest.h>

#include <numeric>

#include "model_builder.h"

namespace crema {
namespace {

using test::Import;
using test::LayerTypes;
using test::ModelBuilder;
using test::ShapedValues;
using Types = std::vector<std::string>;

ShapedValues Counting(const Shape& shape) {
  ShapedValues values{shape, std::vector<float>(static_cast<size_t>(shape.count()))};
  std::iota(values.values.begin(), values.values.end(), 0.0F);
  return values;
}

// Builds a chain of Reshape and Transpose from x to y.
class Chain {
 public:
  explicit Chain(const std::vector<int64_t>& dims) : dims_(dims) { builder_.Input("x", dims); }

  Chain& Reshape(const std::vector<int64_t>& dims) {
    const std::string shape = "s" + std::to_string(count_);
    builder_.Ints(shape, {static_cast<int64_t>(dims.size())}, dims);
    Next("Reshape", {shape});
    return *this;
  }
  Chain& Transpose(const std::vector<int64_t>& order) {
    ModelBuilder::SetInts(Next("Transpose", {}), "perm", order);
    return *this;
  }
  // One element of an axis, which goes.
  Chain& Take(int64_t axis, int64_t index) {
    const std::string name = "i" + std::to_string(count_);
    builder_.Ints(name, {}, {index});
    ModelBuilder::SetInt(Next("Gather", {name}), "axis", axis);
    return *this;
  }

  // Imports the chain, with a Relu at its end.
  ImportedNet Finish() {
    builder_.Node("Relu", {last_}, {"y"});
    builder_.Output("y");
    return Import(builder_);
  }

 private:
  onnx::NodeProto& Next(const char* op, const std::vector<std::string>& more) {
    std::vector<std::string> inputs = {last_};
    inputs.insert(inputs.end(), more.begin(), more.end());
    last_ = "v" + std::to_string(count_++);
    return builder_.Node(op, inputs, {last_});
  }

  ModelBuilder builder_;
  std::vector<int64_t> dims_;
  std::string last_ = "x";
  int count_ = 0;
};

std::vector<float> RunOn(const ImportedNet& net, const Shape& shape) {
  return test::Run(net, {{"x", Counting(shape)}}).at("y").values;
}

TEST(OnnxMoves, CancelChainsThatMoveNothing) {
  Chain chain({2, 6, 4});
  chain.Reshape({2, 2, 3, 4}).Transpose({0, 2, 1, 3}).Transpose({0, 2, 3, 1});
  chain.Transpose({0, 1, 3, 2}).Reshape({2, 6, 4});
  EXPECT_EQ(LayerTypes(chain.Finish()), Types{"ReLU"});
}

TEST(OnnxMoves, KeepOnePermuteOfWholeAxes) {
  Chain chain({2, 3, 4, 5});
  chain.Reshape({2, 3, 20}).Transpose({0, 2, 1}).Reshape({2, 4, 5, 3});
  const ImportedNet net = chain.Finish();
  EXPECT_EQ(LayerTypes(net), (Types{"Permute", "ReLU"}));
  const std::vector<float> y = RunOn(net, Shape({2, 3, 4, 5}));
  EXPECT_EQ(y[1], 20);   // channel 1 of the first pixel
  EXPECT_EQ(y[3], 1);    // channel 0 of the second
  EXPECT_EQ(y[60], 60);  // the second sample
}

// Heads of attention with steps first, as torch's MultiheadAttention takes them: after the chain
// the batch is first again, so that the net runs on other batches.
TEST(OnnxMoves, KeepTheBatchOfOneFlexible) {
  Chain chain({1, 5, 6});
  chain.Transpose({1, 0, 2}).Reshape({5, 2, 3}).Transpose({1, 0, 2}).Reshape({1, 2, 5, 3});
  const ImportedNet net = chain.Finish();
  EXPECT_EQ(LayerTypes(net), (Types{"Reshape", "Permute", "ReLU"}));
  const std::vector<float> one = RunOn(net, Shape({1, 5, 6}));
  EXPECT_EQ(one[3], 6);   // head 0 of step 1
  EXPECT_EQ(one[15], 3);  // head 1 of step 0
  const std::vector<float> two = RunOn(net, Shape({2, 5, 6}));
  EXPECT_EQ(two[30 + 15], 30 + 3);
}

TEST(OnnxMoves, SplitFactorsThatDoNotDivideStartAnew) {
  Chain chain({4, 6});
  chain.Transpose({1, 0}).Reshape({8, 3}).Transpose({1, 0}).Reshape({24});
  const std::vector<float> y = RunOn(chain.Finish(), Shape({4, 6}));
  // Element (i, j) of the transposed 3 x 8 is element 3 j + i of the transposed 6 x 4.
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 8; ++j) {
      const int flat = 3 * j + i;
      EXPECT_EQ(y[static_cast<size_t>(8 * i + j)], 6 * (flat % 4) + flat / 4);
    }
  }
}

TEST(OnnxMoves, CutTheSourceOfAView) {
  Chain chain({1, 2, 12});
  chain.Reshape({1, 2, 3, 4}).Transpose({2, 1, 0, 3}).Take(0, 1);
  const ImportedNet net = chain.Finish();
  EXPECT_EQ(LayerTypes(net), (Types{"StridedSlice", "Permute", "ReLU"}));
  EXPECT_EQ(RunOn(net, Shape({1, 2, 12})), (std::vector<float>{4, 5, 6, 7, 16, 17, 18, 19}));
}

// torch's MultiheadAttention: steps first, one product for queries, keys and values.
TEST(OnnxMoves, AttentionOfStepsFirstTakesOneProduct) {
  ModelBuilder builder;
  builder.Input("x", {1, 3, 4}).Output("y");
  std::vector<float> weights(48);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = 0.1F * static_cast<float>(i % 7) - 0.3F;
  builder.Floats("w", {4, 12}, weights);
  builder.Floats("u", {4, 4}, std::vector<float>(weights.begin(), weights.begin() + 16));
  builder.Ints("apart", {4}, {3, 1, 3, 4});
  builder.Ints("heads", {3}, {3, 2, 2});
  builder.Ints("four", {4}, {1, 2, 3, 2});
  builder.Ints("transposed", {4}, {1, 2, 2, 3});
  builder.Ints("rows", {2}, {3, 4});
  builder.Ints("steps", {3}, {3, 1, 4});
  builder.Floats("scale", {}, {0.7F});
  const auto transpose = [&](const char* from, const std::string& to, std::vector<int64_t> perm) {
    ModelBuilder::SetInts(builder.Node("Transpose", {from}, {to}), "perm", perm);
  };
  transpose("x", "t", {1, 0, 2});
  builder.Node("MatMul", {"t", "w"}, {"qkv"});
  builder.Node("Reshape", {"qkv", "apart"}, {"parts"});
  for (const int i : {0, 1, 2}) {
    const std::string n = std::to_string(i);
    builder.Ints("index" + n, {}, {i});
    ModelBuilder::SetInt(builder.Node("Gather", {"parts", "index" + n}, {"p" + n}), "axis", 2);
    builder.Node("Reshape", {"p" + n, "heads"}, {"h" + n});
  }
  transpose("h0", "q3", {1, 0, 2});
  transpose("h1", "k3", {1, 2, 0});
  transpose("h2", "v3", {1, 0, 2});
  builder.Node("Reshape", {"q3", "four"}, {"q"});
  builder.Node("Reshape", {"k3", "transposed"}, {"k"});
  builder.Node("Reshape", {"v3", "four"}, {"v"});
  builder.Node("MatMul", {"q", "k"}, {"s"});
  builder.Node("Mul", {"s", "scale"}, {"m"});
  ModelBuilder::SetInt(builder.Node("Softmax", {"m"}, {"p"}), "axis", -1);
  builder.Node("MatMul", {"p", "v"}, {"o"});
  transpose("o", "oo", {2, 0, 1, 3});
  builder.Node("Reshape", {"oo", "rows"}, {"r"});
  builder.Node("MatMul", {"r", "u"}, {"z"});
  builder.Node("Reshape", {"z", "steps"}, {"zz"});
  transpose("zz", "y", {1, 0, 2});
  const ImportedNet net = Import(builder);
  EXPECT_EQ(LayerTypes(net), (Types{"InnerProduct", "Attention", "InnerProduct"}));
  const std::vector<float> one = RunOn(net, Shape({1, 3, 4}));
  const std::vector<float> two = RunOn(net, Shape({2, 3, 4}));
  // Products of another number of rows may sum in another order.
  for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], two[i], 1e-6) << i;
}

// Steps of all samples as rows of a matrix.
TEST(OnnxMoves, RowsOfSeveralSamplesStayWhereTheyAre) {
  ModelBuilder builder;
  builder.Input("x", {2, 3, 4}).Output("y");
  std::vector<float> weights(8);
  std::iota(weights.begin(), weights.end(), 0.0F);
  builder.Floats("w", {4, 2}, weights);
  builder.Ints("rows", {2}, {6, 4});
  builder.Ints("steps", {3}, {3, 2, 2});
  ModelBuilder::SetInts(builder.Node("Transpose", {"x"}, {"t"}), "perm", {1, 0, 2});
  builder.Node("Reshape", {"t", "rows"}, {"r"});
  builder.Node("MatMul", {"r", "w"}, {"p"});
  builder.Node("Reshape", {"p", "steps"}, {"s"});
  ModelBuilder::SetInts(builder.Node("Transpose", {"s"}, {"b"}), "perm", {1, 0, 2});
  builder.Node("Relu", {"b"}, {"y"});
  const ImportedNet net = Import(builder);
  EXPECT_EQ(LayerTypes(net), (Types{"InnerProduct", "ReLU"}));
  const std::vector<float> y = RunOn(net, Shape({2, 3, 4}));
  EXPECT_EQ(y[2], 4 * 0 + 5 * 2 + 6 * 4 + 7 * 6);      // sample 0, step 1
  EXPECT_EQ(y[7], 12 * 1 + 13 * 3 + 14 * 5 + 15 * 7);  // sample 1, step 0
}

}  // namespace
}  // namespace crema
