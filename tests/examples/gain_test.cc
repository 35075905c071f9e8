// The layer of docs/adding_a_layer.md does what the document says.
#include "examples/gain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "support/layer_checker.h"

namespace crema {
namespace {

const LayerType& GainType(Registry& registry) {
  RegisterGain(registry);
  return *registry.Find("Gain");
}

LayerParameter GainParam() {
  LayerParameter param;
  param.set_name("gain");
  param.set_type("Gain");
  return param;
}

Tensor Filled(const Shape& shape, const std::vector<float>& values) {
  Tensor tensor(shape, DType::kF32);
  std::ranges::copy(values, tensor.view().data<float>());
  return tensor;
}

std::vector<float> Values(const Tensor& tensor) {
  const auto span = tensor.view().span<float>();
  return {span.begin(), span.end()};
}

void CheckSamples(const LayerType& type) {
  for (const LayerSample& sample : type.samples) {
    for (const std::string& failure : test::CheckLayerSample(type, sample)) {
      ADD_FAILURE() << failure;
    }
  }
}

class GainTest : public testing::Test {
 protected:
  Registry registry_;
  const std::unique_ptr<const Layer> layer_ = GainType(registry_).make(GainParam());
  ExecContext context_{1};
  // Two samples, two channels, two values each.
  Tensor x_ = Filled({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  Tensor gain_ = Filled({2}, {10, -1});
};

TEST_F(GainTest, BeginsAsTheIdentity) {
  const BlobSpec input{.shape = {2, 3, 4}};
  const LayerInfo info = layer_->Infer({.inputs = {&input, 1}, .output_count = 1});
  ASSERT_EQ(info.parameters.size(), 1u);
  EXPECT_EQ(info.parameters[0].shape, Shape({3}));
  EXPECT_EQ(info.parameters[0].filler->type(), "constant");
  EXPECT_EQ(info.parameters[0].filler->value(), 1);
  EXPECT_FALSE(info.in_place);
}

TEST_F(GainTest, ForwardMultipliesEachChannel) {
  Tensor y({2, 2, 2}, DType::kF32);
  const ConstTensorView input = x_.view();
  const ConstTensorView parameter = gain_.view();
  const TensorView output = y.view();
  layer_->Forward({.context = context_,
                   .phase = TRAIN,
                   .layer_id = 1,
                   .inputs = {&input, 1},
                   .outputs = {&output, 1},
                   .parameters = {&parameter, 1},
                   .saved = {},
                   .scratch = {},
                   .state = nullptr});
  EXPECT_EQ(Values(y), (std::vector<float>{10, 20, -3, -4, 50, 60, -7, -8}));
}

TEST_F(GainTest, BackwardOverwritesInputAndAddsToParameterGradients) {
  Tensor dy = Filled({2, 2, 2}, {1, 1, 1, 1, 1, 1, 1, 2});
  Tensor dx = Filled({2, 2, 2}, std::vector<float>(8, 99));
  Tensor dg = Filled({2}, {100, 200});
  const ConstTensorView input = x_.view();
  const ConstTensorView output;  // not declared as read
  const ConstTensorView output_grad = dy.view();
  const ConstTensorView parameter = gain_.view();
  const TensorView input_grad = dx.view();
  const TensorView parameter_grad = dg.view();
  layer_->Backward({.context = context_,
                    .phase = TRAIN,
                    .layer_id = 1,
                    .inputs = {&input, 1},
                    .outputs = {&output, 1},
                    .output_grads = {&output_grad, 1},
                    .input_grads = {&input_grad, 1},
                    .parameters = {&parameter, 1},
                    .parameter_grads = {&parameter_grad, 1},
                    .saved = {},
                    .scratch = {},
                    .state = nullptr});
  EXPECT_EQ(Values(dx), (std::vector<float>{10, 10, -1, -1, 10, 10, -1, -2}));
  EXPECT_EQ(Values(dg), (std::vector<float>{100 + 1 + 2 + 5 + 6, 200 + 3 + 4 + 7 + 16}));
}

TEST_F(GainTest, PassesTheGenericChecker) {
  const LayerType& type = *registry_.Find("Gain");
  CheckSamples(type);
  for (const BadSample& sample : type.bad_samples) {
    for (const std::string& failure : test::CheckBadSample(type, sample)) ADD_FAILURE() << failure;
  }
}

// The checker compares it with the native methods.
TEST_F(GainTest, PassesTheGenericCheckerByChannel) {
  registry_.AddImplementation("Gain", GainByChannel());
  const LayerType& type = *registry_.Find("Gain");
  ASSERT_EQ(type.implementations.front()->name, "by_channel");
  CheckSamples(type);
}

TEST_F(GainTest, PassesTheGenericCheckerOnTheGpu) {
  RegisterGainCuda(registry_);
  const LayerType& type = *registry_.Find("Gain");
  ASSERT_EQ(type.implementations.back()->name, "cuda");
  CheckSamples(type);
}

TEST_F(GainTest, IsRunByChannelInTraining) {
  registry_.AddImplementation("Gain", GainByChannel());
  const Implementation& implementation = *registry_.Find("Gain")->implementations.front();
  const BlobSpec input{.shape = {2, 3, 4}};
  const InferContext infer{.inputs = {&input, 1}, .output_count = 1};
  const LayerInfo info = layer_->Infer(infer);
  OpDesc op{.layer = *layer_, .context = infer, .info = info, .threads = 3, .backward = true};
  EXPECT_TRUE(implementation.Supports(op).yes);
  op.threads = 4;
  EXPECT_EQ(implementation.Supports(op).reason, "has too few channels");
}

TEST_F(GainTest, RefusesABiasNamingTheField) {
  LayerParameter param = GainParam();
  param.mutable_scale_param()->set_bias_term(true);
  try {
    registry_.Find("Gain")->make(param);
    FAIL() << "a bias was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.problems().front().where.field, "scale_param.bias_term");
  }
}

}  // namespace
}  // namespace crema
