// Hand-computed values of the norms of features.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "support/layer_expect.h"
#include "support/layer_fixture.h"
#include "support/net.h"

namespace crema::test {
namespace {

using test::CallBuiltin;
using test::ExpectClose;

const Values kPlanes = {1, 3, -2, -2, 0, 4, 6, 6};  // 1 x 2 x 4

TEST(MVNTest, PlanesAndSamples) {
  const Blob x{{1, 2, 2, 2}, kPlanes};
  const double a = std::sqrt(4.5), b = std::sqrt(6.0);
  ExpectClose(CallBuiltin("MVN", {.inputs = {x}}).outputs[0],
              {1 / a, 3 / a, -2 / a, -2 / a, -4 / b, 0, 2 / b, 2 / b});
  ExpectClose(
      CallBuiltin("MVN", {.prototxt = "mvn_param { normalize_variance: false }", .inputs = {x}})
          .outputs[0],
      {1, 3, -2, -2, -4, 0, 2, 2});
  ExpectClose(CallBuiltin("MVN", {.prototxt = "mvn_param { across_channels: true "
                                              "normalize_variance: false }",
                                  .inputs = {x}})
                  .outputs[0],
              {-1, 1, -4, -4, -2, 2, 4, 4});
}

TEST(MVNTest, EpsIsAddedToTheDeviation) {
  const RunResult result =
      CallBuiltin("MVN", {.prototxt = "mvn_param { eps: 1 }", .inputs = {{{1, 1, 2}, {2, 4}}}});
  ExpectClose(result.outputs[0], {-0.5, 0.5});
}

TEST(MVNTest, PlaneOfEqualValuesIsZeroWithoutNaN) {
  const RunResult result = CallBuiltin(
      "MVN", {.inputs = {{{1, 1, 3}, {1000.1, 1000.1, 1000.1}}}, .output_grads = {{1, 2, 3}}});
  ExpectClose(result.outputs[0], {0, 0, 0});
  for (double gradient : result.input_grads[0]) EXPECT_TRUE(std::isfinite(gradient));
}

std::vector<float> NormalizeOnce(const std::string& fields, const std::vector<float>& scale) {
  const auto plan = PlanText(
      "layer { name: \"x\" type: \"Input\" top: \"x\" input_param { shape { dim: 1 dim: 2 dim: 2 "
      "} } }\nlayer { name: \"n\" type: \"Normalize\" bottom: \"x\" top: \"y\" norm_param { " +
      fields + " } }\n");
  const auto weights = Weights::Make(*plan, 1);
  std::ranges::copy(scale, weights->blob(0).data<float>());
  Session session(plan, weights, ExecContext(1));
  std::ranges::copy(std::vector<float>{3, 0, 4, 2}, session.MutableData("x").data<float>());
  session.Forward();
  return ValuesOf(session.Data("y"));
}

TEST(NormalizeTest, PixelsAndSamples) {
  const auto wide = [](const std::vector<float>& v) { return Values(v.begin(), v.end()); };
  ExpectClose(wide(NormalizeOnce("across_spatial: false channel_shared: false", {10, 20})),
              {6, 0, 16, 20});
  const double norm = std::sqrt(29.0);
  ExpectClose(wide(NormalizeOnce("", {2})), {6 / norm, 0, 8 / norm, 4 / norm});
}

TEST(InstanceNormTest, EachPlane) {
  const double d = std::sqrt(4.5), e = std::sqrt(6.0);
  ExpectClose(CallBuiltin("InstanceNorm", {.prototxt = "instance_norm_param { eps: 0 }",
                                           .inputs = {{{1, 2, 4}, kPlanes}}})
                  .outputs[0],
              {1 / d, 3 / d, -2 / d, -2 / d, -4 / e, 0, 2 / e, 2 / e});
}

TEST(GroupNormTest, OneGroupCoversAllChannels) {
  const double d = std::sqrt(74.0 / 8);
  ExpectClose(
      CallBuiltin("GroupNorm", {.prototxt = "group_norm_param { group: 1 affine: false eps: 0 }",
                                .inputs = {{{1, 2, 4}, kPlanes}}})
          .outputs[0],
      {-1 / d, 1 / d, -4 / d, -4 / d, -2 / d, 2 / d, 4 / d, 4 / d});
}

TEST(LayerNormTest, LastAxis) {
  const double d = std::sqrt(4.5), e = std::sqrt(6.0);
  ExpectClose(CallBuiltin("LayerNorm", {.prototxt = "layer_norm_param { affine: false eps: 0 }",
                                        .inputs = {{{2, 4}, kPlanes}}})
                  .outputs[0],
              {1 / d, 3 / d, -2 / d, -2 / d, -4 / e, 0, 2 / e, 2 / e});
}

TEST(RMSNormTest, LastAxisWithoutMean) {
  ExpectClose(CallBuiltin("RMSNorm", {.prototxt = "rms_norm_param { affine: false eps: 0 }",
                                      .inputs = {{{2, 2}, {3, 4, 0, 2}}}})
                  .outputs[0],
              {3 / std::sqrt(12.5), 4 / std::sqrt(12.5), 0, std::sqrt(2.0)});
}

}  // namespace
}  // namespace crema::test
