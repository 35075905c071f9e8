// Hand-computed values of activations, arithmetic, shape and input layers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "crema.pb.h"
#include "support/layer_expect.h"
#include "support/layer_fixture.h"

namespace crema {
void RegisterConcat(Registry&);
void RegisterDropout(Registry&);
void RegisterDummyData(Registry&);
void RegisterEltwise(Registry&);
void RegisterFlatten(Registry&);
void RegisterInput(Registry&);
void RegisterPower(Registry&);
void RegisterReduction(Registry&);
void RegisterReLU(Registry&);
void RegisterSigmoid(Registry&);
void RegisterSilence(Registry&);
void RegisterSoftmax(Registry&);
void RegisterSplit(Registry&);
void RegisterTanH(Registry&);
}  // namespace crema

namespace crema::test {
namespace {

using test::ExpectNear;

RunResult CallAdded(void (*add)(Registry&), const LayerCall& call) {
  Registry registry;
  add(registry);
  return CallLayer(*registry.Find(registry.Names().front()), call);
}

LayerInfo InfoOf(void (*add)(Registry&), const LayerSample& sample) {
  Registry registry;
  add(registry);
  return LayerCase(*registry.Find(registry.Names().front()), sample, DType::kF32).info();
}

TEST(ReLUTest, ZeroTakesTheNegativeSlope) {
  const RunResult result =
      CallAdded(RegisterReLU, {.prototxt = "relu_param { negative_slope: 0.25 }",
                               .inputs = {{{3}, {-4, 0, 2}}},
                               .output_grads = {{1, 1, 1}}});
  ExpectNear(result.outputs[0], {-1, 0, 2});
  ExpectNear(result.input_grads[0], {0.25, 0.25, 1});
}

TEST(SigmoidTest, SaturatesWithoutOverflow) {
  const RunResult result = CallAdded(
      RegisterSigmoid, {.inputs = {{{4}, {0, 1, -1000, 1000}}}, .output_grads = {{4, 1, 1, 1}}});
  ExpectNear(result.outputs[0], {0.5, 0.7310586, 0, 1});
  ExpectNear(result.input_grads[0], {1, 0.1966119, 0, 0});
}

TEST(TanHTest, KnownValues) {
  const RunResult result =
      CallAdded(RegisterTanH, {.inputs = {{{3}, {0, 0.5, -100}}}, .output_grads = {{1, 1, 1}}});
  ExpectNear(result.outputs[0], {0, 0.4621172, -1});
  ExpectNear(result.input_grads[0], {1, 0.7864477, 0});
}

TEST(PowerTest, ConstantOutputHasNoGradient) {
  const RunResult zero = CallAdded(RegisterPower, {.prototxt = "power_param { power: 0 shift: 5 }",
                                                   .inputs = {{{2}, {1, 2}}},
                                                   .output_grads = {{1, 1}}});
  ExpectNear(zero.outputs[0], {1, 1});
  ExpectNear(zero.input_grads[0], {0, 0});
  const RunResult scale = CallAdded(
      RegisterPower,
      {.prototxt = "power_param { power: 2 scale: 0 shift: 3 }", .inputs = {{{2}, {1, 2}}}});
  ExpectNear(scale.outputs[0], {9, 9});
}

TEST(PowerTest, GradientAtZeroIsFinite) {
  const RunResult result =
      CallAdded(RegisterPower, {.prototxt = "power_param { power: 3 scale: 2 }",
                                .inputs = {{{3}, {0, 1, -1}}},
                                .output_grads = {{1, 1, 1}}});
  ExpectNear(result.outputs[0], {0, 8, -8});
  ExpectNear(result.input_grads[0], {0, 24, 24});
}

TEST(SoftmaxTest, AlongTheMiddleAxis) {
  const RunResult result = CallAdded(RegisterSoftmax, {.inputs = {{{1, 2, 2}, {0, 1000, 0, 0}}}});
  ExpectNear(result.outputs[0], {0.5, 1, 0.5, 0});
}

TEST(DropoutTest, DropsTheAskedShareAndScalesTheRest) {
  const Values ones(40000, 1.0);
  const RunResult result =
      CallAdded(RegisterDropout, {.prototxt = "dropout_param { dropout_ratio: 0.2 }",
                                  .inputs = {{{40000}, ones}},
                                  .output_grads = {ones}});
  const auto dropped = std::ranges::count(result.outputs[0], 0.0);
  EXPECT_NEAR(static_cast<double>(dropped) / 40000.0, 0.2, 0.008);  // four deviations
  for (double y : result.outputs[0]) EXPECT_TRUE(y == 0 || std::abs(y - 1.25) < 1e-6);
  EXPECT_EQ(result.outputs[0], result.input_grads[0]);
}

TEST(DropoutTest, TestPhaseIsTheIdentity) {
  const Values x = {1, -2, 3};
  EXPECT_EQ(CallAdded(RegisterDropout, {.inputs = {{{3}, x}}, .phase = TEST}).outputs[0], x);
  const RunResult old = CallAdded(
      RegisterDropout, {.prototxt = "dropout_param { dropout_ratio: 0.25 scale_train: false }",
                        .inputs = {{{3}, x}},
                        .phase = TEST});
  ExpectNear(old.outputs[0], {0.75, -1.5, 2.25});
}

TEST(DropoutTest, MaskIsAFunctionOfSeedLayerAndStep) {
  Registry registry;
  RegisterDropout(registry);
  const LayerType& type = *registry.Find("Dropout");
  const auto layer = type.make(MakeParameter(type, "", 1, 1));
  Tensor x({1000}, DType::kF32);
  std::ranges::fill(x.view().span<float>(), 1.0F);
  const auto mask = [&](uint64_t seed, uint64_t layer_id, uint64_t step) {
    Tensor y({1000}, DType::kF32);
    ExecContext context(1, seed);
    context.set_step(step);
    const ConstTensorView input = x.view();
    const TensorView output = y.view();
    const TensorView saved;
    layer->Forward({.context = context,
                    .phase = TRAIN,
                    .layer_id = layer_id,
                    .inputs = {&input, 1},
                    .outputs = {&output, 1},
                    .parameters = {},
                    .saved = {&saved, 1},
                    .scratch = {},
                    .state = nullptr});
    const auto span = y.view().span<float>();
    return std::vector<float>(span.begin(), span.end());
  };
  EXPECT_EQ(mask(1, 2, 3), mask(1, 2, 3));
  EXPECT_NE(mask(1, 2, 3), mask(1, 2, 4));
  EXPECT_NE(mask(1, 2, 3), mask(1, 5, 3));
  EXPECT_NE(mask(1, 2, 3), mask(6, 2, 3));
}

TEST(EltwiseTest, SumUsesCoefficients) {
  const RunResult result =
      CallAdded(RegisterEltwise, {.prototxt = "eltwise_param { coeff: 2 coeff: -1 }",
                                  .inputs = {{{2}, {1, 2}}, {{2}, {10, 20}}},
                                  .output_grads = {{1, 3}}});
  ExpectNear(result.outputs[0], {-8, -16});
  ExpectNear(result.input_grads[0], {2, 6});
  ExpectNear(result.input_grads[1], {-1, -3});
}

TEST(EltwiseTest, TiesOfMaxAreCaffes) {
  // Input 1 wins against an equal input 0; input 2 must be greater than what is there.
  const RunResult result = CallAdded(
      RegisterEltwise, {.prototxt = "eltwise_param { operation: MAX }",
                        .inputs = {{{4}, {5, 5, 1, 7}}, {{4}, {5, 3, 2, 7}}, {{4}, {5, 5, 2, 8}}},
                        .output_grads = {{1, 2, 3, 4}}});
  ExpectNear(result.outputs[0], {5, 5, 2, 8});
  ExpectNear(result.input_grads[0], {0, 2, 0, 0});
  ExpectNear(result.input_grads[1], {1, 0, 3, 0});
  ExpectNear(result.input_grads[2], {0, 0, 0, 4});
}

TEST(EltwiseTest, ProductGradientAtZeroIsRightWhenStable) {
  const LayerCall call{.prototxt = "eltwise_param { operation: PROD }",
                       .inputs = {{{2}, {0, 2}}, {{2}, {3, 4}}, {{2}, {5, 6}}},
                       .output_grads = {{1, 1}}};
  const RunResult result = CallAdded(RegisterEltwise, call);
  ExpectNear(result.outputs[0], {0, 48});
  ExpectNear(result.input_grads[0], {15, 24});
  ExpectNear(result.input_grads[1], {0, 12});
  LayerCall unstable = call;
  unstable.prototxt = "eltwise_param { operation: PROD stable_prod_grad: false }";
  const RunResult divided = CallAdded(RegisterEltwise, unstable);
  EXPECT_TRUE(std::isnan(divided.input_grads[0][0]));
  EXPECT_NEAR(divided.input_grads[0][1], 24, 1e-5);
}

TEST(ReductionTest, FoldsTheLastAxes) {
  const auto reduce = [](const std::string& text) {
    return CallAdded(RegisterReduction,
                     {.prototxt = "reduction_param { axis: 1 coeff: 2 " + text + " }",
                      .inputs = {{{2, 3}, {1, -2, 3, 0, 0.5, -4}}},
                      .output_grads = {{1, 10}}});
  };
  ExpectNear(reduce("").outputs[0], {4, -7});
  ExpectNear(reduce("operation: ASUM").outputs[0], {12, 9});
  ExpectNear(reduce("operation: SUMSQ").outputs[0], {28, 32.5});
  ExpectNear(reduce("operation: MEAN").outputs[0], {4 / 3.0, -7 / 3.0});
  ExpectNear(reduce("operation: ASUM").input_grads[0], {2, -2, 2, 0, 20, -20});
  ExpectNear(reduce("operation: SUMSQ").input_grads[0], {4, -8, 12, 0, 20, -160});
  ExpectNear(reduce("operation: MEAN").input_grads[0],
             {2 / 3.0, 2 / 3.0, 2 / 3.0, 20 / 3.0, 20 / 3.0, 20 / 3.0}, 1e-5);
}

TEST(ReductionTest, LargeFloatSumsKeepTheirSmallTerms) {
  Values values(100001, 0.25);
  values[0] = 1 << 24;  // f32 has no 2^24 + 0.25
  const auto count = static_cast<int64_t>(values.size());
  const RunResult result = CallAdded(RegisterReduction, {.inputs = {{{count}, values}}});
  EXPECT_EQ(result.outputs[0][0], (1 << 24) + 25000);
}

TEST(ReductionTest, OutputHasTheLeadingAxes) {
  const LayerInfo info = InfoOf(RegisterReduction, {.name = "x",
                                                    .prototxt = "reduction_param { axis: -2 }",
                                                    .inputs = {{.shape = {2, 3, 4, 5}}}});
  EXPECT_EQ(info.outputs[0].shape, Shape({2, 3}));
}

TEST(ConcatTest, JoinsAndSplitsAlongTheAxis) {
  const RunResult result =
      CallAdded(RegisterConcat, {.inputs = {{{2, 1}, {1, 2}}, {{2, 2}, {3, 4, 5, 6}}},
                                 .output_grads = {{10, 20, 30, 40, 50, 60}}});
  EXPECT_EQ(result.outputs[0], (Values{1, 3, 4, 2, 5, 6}));
  EXPECT_EQ(result.input_grads[0], (Values{10, 40}));
  EXPECT_EQ(result.input_grads[1], (Values{20, 30, 50, 60}));
}

TEST(ConcatTest, OneInputIsAView) {
  const LayerInfo info =
      InfoOf(RegisterConcat, {.name = "x", .prototxt = "", .inputs = {{.shape = {2, 3}}}});
  EXPECT_TRUE(info.view);
  EXPECT_EQ(info.outputs[0].shape, Shape({2, 3}));
}

TEST(FlattenTest, MergesTheNamedAxes) {
  const auto shape = [](const std::string& text) {
    const LayerInfo info = InfoOf(
        RegisterFlatten, {.name = "x", .prototxt = text, .inputs = {{.shape = {2, 3, 4, 5}}}});
    EXPECT_TRUE(info.view);
    return info.outputs[0].shape;
  };
  EXPECT_EQ(shape(""), Shape({2, 60}));
  EXPECT_EQ(shape("flatten_param { axis: 0 }"), Shape({120}));
  EXPECT_EQ(shape("flatten_param { axis: 1 end_axis: 2 }"), Shape({2, 12, 5}));
  EXPECT_EQ(shape("flatten_param { axis: -2 end_axis: -1 }"), Shape({2, 3, 20}));
  EXPECT_EQ(shape("flatten_param { axis: 2 end_axis: 1 }"), Shape({2, 3, 1, 4, 5}));
}

TEST(SplitTest, SumsTheGradientsOfItsOutputs) {
  const RunResult result = CallAdded(
      RegisterSplit,
      {.inputs = {{{2}, {1, 2}}}, .outputs = 3, .output_grads = {{1, 2}, {10, 20}, {100, 200}}});
  for (const Values& output : result.outputs) EXPECT_EQ(output, (Values{1, 2}));
  EXPECT_EQ(result.input_grads[0], (Values{111, 222}));
}

TEST(SplitTest, AbsentGradientsAreZeroAndOneMayShareMemoryWithTheSum) {
  Registry registry;
  RegisterSplit(registry);
  const LayerType& type = *registry.Find("Split");
  const auto layer = type.make(MakeParameter(type, "", 1, 3));
  ExecContext context(1);
  Tensor a({2}, DType::kF32), b({2}, DType::kF32);
  const auto run = [&](const std::vector<ConstTensorView>& grads, const TensorView& dx) {
    layer->Backward({.context = context,
                     .phase = TRAIN,
                     .layer_id = 1,
                     .inputs = {},
                     .outputs = {},
                     .output_grads = grads,
                     .input_grads = {&dx, 1},
                     .parameters = {},
                     .parameter_grads = {},
                     .saved = {},
                     .scratch = {},
                     .state = nullptr});
    return std::vector<float>(dx.data<float>(), dx.data<float>() + 2);
  };
  a.view().data<float>()[0] = 3;
  b.view().data<float>()[0] = 4;
  EXPECT_EQ(run({{}, a.view(), {}}, b.view()), (std::vector<float>{3, 0}));
  EXPECT_EQ(run({{}, a.view(), b.view()}, b.view()), (std::vector<float>{6, 0}));
  EXPECT_EQ(run({{}, {}, {}}, b.view()), (std::vector<float>{0, 0}));
}

TEST(SilenceTest, WritesZeroGradients) {
  Registry registry;
  RegisterSilence(registry);
  const LayerSample sample{
      .name = "x", .prototxt = "", .inputs = {{.shape = {2}}, {.shape = {3}}}, .outputs = 0};
  const LayerCase layer_case(*registry.Find("Silence"), sample, DType::kF32);
  const RunResult result = RunLayer(layer_case, {{{1, 2}, {3, 4, 5}}, {}, {}}, {.backward = true});
  EXPECT_EQ(result.input_grads[0], (Values{0, 0}));
  EXPECT_EQ(result.input_grads[1], (Values{0, 0, 0}));
}

TEST(InputTest, TakesOneShapeForAllOrOneEach) {
  const auto shapes = [](const std::string& text) {
    return InfoOf(RegisterInput, {.name = "x", .prototxt = text, .inputs = {}, .outputs = 2})
        .outputs;
  };
  const auto one = shapes("input_param { shape { dim: 2 dim: 3 } }");
  EXPECT_EQ(one[0].shape, Shape({2, 3}));
  EXPECT_EQ(one[1].shape, Shape({2, 3}));
  const auto two = shapes("input_param { shape { dim: 2 } shape { } }");
  EXPECT_EQ(two[1].shape, Shape());
}

TEST(DummyDataTest, TopsDrawDifferentValuesAndRepeatForTheSameStep) {
  const LayerCall call{.prototxt =
                           "dummy_data_param { shape { dim: 50 } data_filler { type: "
                           "'uniform' min: 2 max: 3 } }",
                       .inputs = {},
                       .outputs = 2};
  const RunResult first = CallAdded(RegisterDummyData, call);
  EXPECT_NE(first.outputs[0], first.outputs[1]);
  EXPECT_EQ(first.outputs, CallAdded(RegisterDummyData, call).outputs);
  EXPECT_TRUE(std::ranges::all_of(first.outputs[0], [](double v) { return v >= 2 && v <= 3; }));
}

TEST(DummyDataTest, FillersAndOldShapesGoByTop) {
  const RunResult result =
      CallAdded(RegisterDummyData,
                {.prototxt = "dummy_data_param { num: 1 num: 2 channels: 3 height: 1 width: 1 "
                             "data_filler { value: 4 } data_filler { value: 5 } }",
                 .inputs = {},
                 .outputs = 2});
  EXPECT_EQ(result.outputs[0], Values(3, 4.0));
  EXPECT_EQ(result.outputs[1], Values(6, 5.0));
}

}  // namespace
}  // namespace crema::test
