// Hand-computed values of the arithmetic layers, and values that they refuse while they run.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "core/strings.h"
#include "support/error_text.h"
#include "support/layer_expect.h"
#include "support/layer_fixture.h"
#include "support/net.h"

namespace crema::test {
namespace {

using test::CallBuiltin;
using test::ErrorOf;
using test::ExpectNear;
using test::kInfinity;
using test::kNan;

// Runs a layer with these parameter values.
RunResult CallWithParameters(const std::string& type, const LayerSample& sample,
                             const CaseValues& values) {
  const LayerCase layer_case(*TestRegistry().Find(type), sample, DType::kF32);
  return RunLayer(layer_case, values, {.backward = !values.output_grads.empty()});
}

TEST(ScaleTest, TwoBottomsFromAnAxisOn) {
  const RunResult result =
      CallBuiltin("Scale", {.inputs = {{{2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}}, {{2}, {10, -1}}},
                            .output_grads = {{1, 2, 3, 4, 5, 6, 7, 8}}});
  EXPECT_EQ(result.outputs[0], (Values{10, 20, -3, -4, 50, 60, -7, -8}));
  EXPECT_EQ(result.input_grads[0], (Values{10, 20, -3, -4, 50, 60, -7, -8}));
  EXPECT_EQ(result.input_grads[1], (Values{1 + 4 + 25 + 36, 9 + 16 + 49 + 64}));
}

TEST(ScaleTest, LearnsScaleAndBias) {
  const LayerSample sample{.name = "x",
                           .prototxt = "scale_param { axis: -1 bias_term: true }",
                           .inputs = {{.shape = {2, 3}}}};
  const RunResult result = CallWithParameters("Scale", sample,
                                              {.inputs = {{1, 2, 3, 4, 5, 6}},
                                               .parameters = {{1, 0, -2}, {0.5, 7, 1}},
                                               .output_grads = {{1, 1, 1, 2, 2, 2}}});
  EXPECT_EQ(result.outputs[0], (Values{1.5, 7, -5, 4.5, 7, -11}));
  EXPECT_EQ(result.input_grads[0], (Values{1, 0, -2, 2, 0, -4}));
  EXPECT_EQ(result.parameter_grads[0], (Values{9, 12, 15}));
  EXPECT_EQ(result.parameter_grads[1], (Values{3, 3, 3}));
}

TEST(ScaleTest, FirstFillIsTheIdentity) {
  const LayerSample sample{
      .name = "x", .prototxt = "scale_param { bias_term: true }", .inputs = {{.shape = {2, 3}}}};
  const LayerCase layer_case(*TestRegistry().Find("Scale"), sample, DType::kF32);
  EXPECT_EQ(layer_case.info().parameters[0].filler->value(), 1);
  EXPECT_EQ(layer_case.info().parameters[1].filler->value(), 0);
}

TEST(ScaleTest, InPlaceTextGivesTheGradientsOfSeparateBlobs) {
  const auto gradient = [](const std::string& top) {
    const std::string net = StrCat(R"(force_backward: true
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 4 } } }
layer { name: "tanh" type: "TanH" bottom: "x" top: "y" }
layer { name: "scale" type: "Scale" bottom: "y" top: ")",
                                   top, R"("
  scale_param { bias_term: true filler { type: "gaussian" } } }
layer { name: "relu" type: "ReLU" bottom: ")",
                                   top, R"(" top: ")", top, R"(" }
layer { name: "sum" type: "Reduction" bottom: ")",
                                   top, R"(" top: "sum" loss_weight: 1
  reduction_param { operation: SUMSQ } }
)");
    const auto plan = PlanText(net);
    Session session(plan, Weights::Make(*plan, 3), ExecContext(1, 3));
    FillInput(&session, "x", 5);
    session.Forward();
    session.ZeroParameterGradients();
    session.Backward();
    auto all = ValuesOf(session.Gradient("x"));
    for (size_t slot = 0; slot < 2; ++slot) {
      for (float v : ValuesOf(session.ParameterGradient(slot))) all.push_back(v);
    }
    return all;
  };
  EXPECT_EQ(gradient("y"), gradient("z"));
}

TEST(BiasTest, SecondBottomGetsTheSum) {
  const RunResult result =
      CallBuiltin("Bias", {.prototxt = "bias_param { axis: 0 }",
                           .inputs = {{{2, 3}, {1, 2, 3, 4, 5, 6}}, {{2}, {10, 20}}},
                           .output_grads = {{1, 2, 3, 4, 5, 6}}});
  EXPECT_EQ(result.outputs[0], (Values{11, 12, 13, 24, 25, 26}));
  EXPECT_EQ(result.input_grads[0], (Values{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(result.input_grads[1], (Values{6, 15}));
}

TEST(BiasTest, LongSumsKeepTheirSmallTerms) {
  Values dy(100001, 0.25);
  dy[0] = 1 << 24;  // f32 has no 2^24 + 0.25
  const auto count = static_cast<int64_t>(dy.size());
  const RunResult result =
      CallBuiltin("Bias", {.inputs = {{{count}, dy}, {{}, {1}}}, .output_grads = {dy}});
  // Only the few that share a lane with the large one are lost.
  EXPECT_NEAR(result.input_grads[1][0], (1 << 24) + 25000, 32);
}

TEST(AxpyTest, ScalesChannelsAndAdds) {
  const RunResult result = CallBuiltin("Axpy", {.inputs = {{{1, 2, 1, 1}, {2, -1}},
                                                           {{1, 2, 1, 2}, {1, 2, 3, 4}},
                                                           {{1, 2, 1, 2}, {10, 20, 30, 40}}},
                                                .output_grads = {{1, 2, 3, 4}}});
  EXPECT_EQ(result.outputs[0], (Values{12, 24, 27, 36}));
  EXPECT_EQ(result.input_grads[0], (Values{5, 25}));
  EXPECT_EQ(result.input_grads[1], (Values{2, 4, -3, -4}));
  EXPECT_EQ(result.input_grads[2], (Values{1, 2, 3, 4}));
}

TEST(EmbedTest, RowsAndTheirGradients) {
  const LayerSample sample{.name = "x",
                           .prototxt = "embed_param { input_dim: 3 num_output: 2 }",
                           .inputs = {{.shape = {3}}}};
  const RunResult result = CallWithParameters("Embed", sample,
                                              {.inputs = {{2, 0, 2}},
                                               .parameters = {{1, 2, 3, 4, 5, 6}, {10, 20}},
                                               .output_grads = {{1, 2, 3, 4, 5, 6}}});
  EXPECT_EQ(result.outputs[0], (Values{15, 26, 11, 22, 15, 26}));
  EXPECT_EQ(result.parameter_grads[0], (Values{3, 4, 0, 0, 6, 8}));
  EXPECT_EQ(result.parameter_grads[1], (Values{9, 12}));
}

TEST(EmbedTest, IndicesAreChecked) {
  const LayerSample sample{.name = "x",
                           .prototxt = "embed_param { input_dim: 7 num_output: 1 }",
                           .inputs = {{.shape = {2}}}};
  const auto error = [&](double index) {
    return ErrorOf([&] {
      CallWithParameters(
          "Embed", sample,
          {.inputs = {{3, index}}, .parameters = {Values(7), {0}}, .output_grads = {}});
    });
  };
  EXPECT_NE(error(7).find("index 7 at element 1 of \"in0\" (sample 1 of the batch) is outside "
                          "0..6: there are 7 rows"),
            std::string::npos)
      << error(7);
  EXPECT_NE(error(-1).find("index -1"), std::string::npos);
  EXPECT_NE(error(1.5).find("index 1.5 at element 1 of \"in0\" (sample 1 of the batch) is not a "
                            "whole number in 0..6"),
            std::string::npos);
  EXPECT_NE(error(kNan).find("not a whole number"), std::string::npos);
  EXPECT_NE(error(kInfinity).find("not a whole number"), std::string::npos);
  EXPECT_EQ(error(6), "");
}

TEST(GatherTest, TakesTheAxisOfTheIndex) {
  const RunResult result =
      CallBuiltin("Gather", {.prototxt = "gather_param { axis: 1 }",
                             .inputs = {{{2, 3}, {1, 2, 3, 4, 5, 6}}, {{2, 2}, {2, 0, 0, 0}}},
                             .output_grads = {{1, 2, 3, 4, 5, 6, 7, 8}}});
  EXPECT_EQ(result.outputs[0], (Values{3, 1, 1, 1, 6, 4, 4, 4}));
  EXPECT_EQ(result.input_grads[0], (Values{9, 0, 1, 21, 0, 5}));
  const std::string error = ErrorOf([] {
    CallBuiltin("Gather", {.inputs = {{{2, 3}, {1, 2, 3, 4, 5, 6}}, {{1}, {2}}}});
  });
  EXPECT_NE(error.find("index 2 at element 0 of \"in1\" (sample 0 of the batch) is outside -2..1"),
            std::string::npos);
}

TEST(BatchReindexTest, SumsTheGradientsOfRepeatedRows) {
  const RunResult result =
      CallBuiltin("BatchReindex", {.inputs = {{{3, 2}, {1, 2, 3, 4, 5, 6}}, {{4}, {2, 0, 2, 2}}},
                                   .output_grads = {{1, 2, 3, 4, 5, 6, 7, 8}}});
  EXPECT_EQ(result.outputs[0], (Values{5, 6, 1, 2, 5, 6, 5, 6}));
  EXPECT_EQ(result.input_grads[0], (Values{3, 4, 0, 0, 13, 16}));
  const std::string error = ErrorOf([] {
    CallBuiltin("BatchReindex", {.inputs = {{{0, 2}, {}}, {{1}, {0}}}});
  });
  EXPECT_NE(error.find("is outside an empty range: there are 0 rows"), std::string::npos);
}

TEST(MatMulTest, RepeatsAxesOfSizeOne) {
  const RunResult result =
      CallBuiltin("MatMul", {.prototxt = "matmul_param { scale: 2 }",
                             .inputs = {{{2, 1, 2}, {1, 2, 3, 4}}, {{1, 2, 2}, {1, 2, 3, 4}}},
                             .output_grads = {{1, 0, 0, 1}}});
  EXPECT_EQ(result.outputs[0], (Values{14, 20, 30, 44}));
  EXPECT_EQ(result.input_grads[0], (Values{2, 6, 4, 8}));
  EXPECT_EQ(result.input_grads[1], (Values{2, 6, 4, 8}));
}

TEST(MatMulTest, ShapesOfBatches) {
  const auto shape = [](std::vector<int64_t> a, std::vector<int64_t> b, const std::string& text) {
    const LayerSample sample{.name = "x", .prototxt = text, .inputs = {{.shape = a}, {.shape = b}}};
    return LayerCase(*TestRegistry().Find("MatMul"), sample, DType::kF32).info().outputs[0].shape;
  };
  EXPECT_EQ(shape({2, 3, 4, 5}, {5, 6}, ""), Shape({2, 3, 4, 6}));
  EXPECT_EQ(shape({4, 5}, {7, 6, 5}, "matmul_param { transpose_b: true }"), Shape({7, 4, 6}));
  EXPECT_EQ(shape({2, 1, 4, 5}, {3, 4, 6}, "matmul_param { transpose_a: true }"),
            Shape({2, 3, 5, 6}));
}

TEST(CastTest, RoundsToHalf) {
  const double tiny = std::ldexp(1.0, -24);  // the smallest half
  const RunResult result =
      CallBuiltin("Cast", {.prototxt = "cast_param { to: FLOAT16 }",
                           .inputs = {{{9},
                                       {0.1, 2049, 2051, 65519, 65520, -kInfinity, 0.5 * tiny,
                                        0.6 * tiny, 1023.4 * tiny}}},
                           .output_grads = {Values(9, 3.0)},
                           .dtype = DType::kF64});
  EXPECT_EQ(result.outputs[0], (Values{0.0999755859375, 2048, 2052, 65504, kInfinity, -kInfinity, 0,
                                       tiny, 1023 * tiny}));
  EXPECT_EQ(result.input_grads[0], Values(9, 3.0));
}

TEST(CastTest, IntegersAreCutAndBounded) {
  const auto cast = [](const std::string& to) {
    return CallBuiltin("Cast", {.prototxt = "cast_param { to: " + to + " }",
                                .inputs = {{{7}, {-1.9, -0.5, 2.9, 5e9, -5e9, kNan, 0}}},
                                .dtype = DType::kF64})
        .outputs[0];
  };
  EXPECT_EQ(cast("INT"), (Values{-1, 0, 2, 2147483647, -2147483648.0, 0, 0}));
  EXPECT_EQ(cast("UINT"), (Values{0, 0, 2, 4294967295, 0, 0, 0}));
  EXPECT_EQ(cast("BOOL"), (Values{1, 1, 1, 1, 1, 1, 0}));
}

TEST(ArgMaxTest, EqualValuesGiveTheLastIndexAndNanRanksLast) {
  const RunResult result =
      CallBuiltin("ArgMax", {.prototxt = "argmax_param { top_k: 3 out_max_val: true }",
                             .inputs = {{{1, 5}, {1, kNan, 4, 4, 2}}}});
  EXPECT_EQ(result.outputs[0], (Values{3, 2, 4, 4, 4, 2}));
  EXPECT_EQ(CallBuiltin("ArgMax", {.inputs = {{{1, 3}, {kNan, 7, kNan}}}}).outputs[0], (Values{1}));
  EXPECT_EQ(CallBuiltin("ArgMax", {.inputs = {{{1, 3}, {5, 5, 5}}}}).outputs[0], (Values{2}));
}

TEST(ArgMaxTest, AlongAnAxis) {
  const auto along = [](const std::string& more) {
    return CallBuiltin("ArgMax", {.prototxt = "argmax_param { axis: 1 top_k: 2 " + more + " }",
                                  .inputs = {{{1, 3, 2}, {1, 6, 5, 2, 3, 4}}}})
        .outputs[0];
  };
  EXPECT_EQ(along(""), (Values{1, 0, 2, 2}));
  EXPECT_EQ(along("out_max_val: true"), (Values{5, 6, 3, 4}));
}

TEST(ArgMaxTest, ShapesWithoutAnAxisAreCaffes) {
  const auto shape = [](std::vector<int64_t> x, const std::string& text) {
    const LayerSample sample{
        .name = "x", .prototxt = "argmax_param { " + text + " }", .inputs = {{.shape = x}}};
    return LayerCase(*TestRegistry().Find("ArgMax"), sample, DType::kF32).info().outputs[0].shape;
  };
  EXPECT_EQ(shape({4, 10}, ""), Shape({4, 1, 1}));
  EXPECT_EQ(shape({4, 3, 2, 2}, "top_k: 5 out_max_val: true"), Shape({4, 2, 5, 1}));
}

TEST(ParameterTest, TheTopIsTheBlob) {
  const LayerSample sample{
      .name = "x", .prototxt = "parameter_param { shape { dim: 3 } }", .inputs = {}};
  const RunResult result = CallWithParameters(
      "Parameter", sample, {.inputs = {}, .parameters = {{1, 2, 3}}, .output_grads = {{4, 5, 6}}});
  EXPECT_EQ(result.outputs[0], (Values{1, 2, 3}));
  EXPECT_EQ(result.parameter_grads[0], (Values{4, 5, 6}));
}

TEST(PositionEmbeddingTest, SinesAndCosines) {
  const RunResult result =
      CallBuiltin("PositionEmbedding", {.prototxt = "position_embedding_param { kind: SINUSOIDAL }",
                                        .inputs = {{{1, 2, 4}, {0, 0, 0, 0, 10, 10, 10, 10}}}});
  ExpectNear(result.outputs[0], {0, 1, 0, 1, 10 + std::sin(1.0), 10 + std::cos(1.0),
                                 10 + std::sin(0.01), 10 + std::cos(0.01)});
}

TEST(PositionEmbeddingTest, LearnsARowForEachPosition) {
  const LayerSample sample{.name = "x",
                           .prototxt = "position_embedding_param { axis: 0 max_length: 3 }",
                           .inputs = {{.shape = {2, 2, 1}}}};
  const RunResult result = CallWithParameters(
      "PositionEmbedding", sample,
      {.inputs = {{1, 2, 3, 4}}, .parameters = {{10, 20, 30}}, .output_grads = {{1, 2, 3, 4}}});
  EXPECT_EQ(result.outputs[0], (Values{11, 12, 23, 24}));
  EXPECT_EQ(result.parameter_grads[0], (Values{3, 7, 0}));
}

TEST(CosineSimilarityTest, AnglesAndZeroVectors) {
  const RunResult result = CallBuiltin(
      "CosineSimilarity",
      {.inputs = {{{4, 2}, {3, 4, 1, 0, 0, 0, -2, 0}}, {{4, 2}, {3, 4, 0, 5, 1, 1, 7, 0}}},
       .output_grads = {{1, 1, 0, 1}}});
  ExpectNear(result.outputs[0], {1, 0, 0, -1});
  ExpectNear(result.input_grads[0], {0, 0, 0, 1, 0, 0, 0, 0});
  ExpectNear(result.input_grads[1], {0, 0, 0.2, 0, 0, 0, 0, 0});
}

}  // namespace
}  // namespace crema::test
