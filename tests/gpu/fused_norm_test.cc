// BatchNorm on a GPU or its emulation, with following layers fused: results as for separate layers.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "gpu/fused_runs.h"

namespace crema::test {
namespace {

const std::string kScale = R"(layer { name: "s" type: "Scale" bottom: "bn" top: "s"
  scale_param { filler { type: "uniform" min: 0.5 max: 2 } } })";
const std::string kBiased = R"(layer { name: "s" type: "Scale" bottom: "bn" top: "s"
  scale_param { bias_term: true filler { type: "uniform" min: -2 max: 2 }
                bias_filler { type: "uniform" min: -1 max: 1 } } })";
const std::string kFrozen = R"(layer { name: "s" type: "Scale" bottom: "bn" top: "s"
  param { lr_mult: 0 } param { lr_mult: 1 }
  scale_param { bias_term: true filler { type: "uniform" min: 0.5 max: 2 } } })";

std::string Relu(const std::string& bottom, float slope = 0) {
  return StrCat("layer { name: 'r' type: 'ReLU' bottom: '", bottom,
                "' top: 'r' relu_param { negative_slope: ", slope, " } }\n");
}

std::string NetOf(const std::string& following, const std::string& last, int64_t batch,
                  int64_t side) {
  const std::string shape = StrCat("dim: ", batch, " dim: 5 dim: ", side, " dim: ", side + 1);
  return StrCat(
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { ", shape, " } } }\n",
      "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' convolution_param { num_output: "
      "16 "
      "kernel_size: 1 weight_filler { type: 'msra' } bias_filler { type: 'constant' value: 3 } } "
      "}\n"
      "layer { name: 'bn' type: 'BatchNorm' bottom: 'c' top: 'bn' }\n",
      following, "layer { name: 'd' type: 'Convolution' bottom: '", last,
      "' top: 'd' convolution_param { num_output: 4 kernel_size: 1 weight_filler { type: 'msra' } "
      "} "
      "}\nlayer { name: 'loss' type: 'Reduction' bottom: 'd' top: 'loss' loss_weight: 0.05 "
      "reduction_param { operation: SUMSQ } }\n");
}

TEST(GpuFusedNorm, IsAsEachByItself) {
  const std::vector<std::pair<std::string, std::pair<std::string, size_t>>> following{
      {kScale, {"s", 1}},
      {kBiased, {"s", 1}},
      {Relu("bn"), {"r", 1}},
      {kScale + Relu("s"), {"r", 2}},
      {kBiased + Relu("s"), {"r", 2}},
      {kBiased + Relu("s", 0.25F), {"r", 2}},
      {kFrozen + Relu("s"), {"r", 2}}};
  for (const auto& [layers, last] : following) {
    for (const auto& [batch, side] : {std::pair{3, 7}, {1, 1}, {2, 40}, {2, 90}}) {
      const std::string net = NetOf(layers, last.first, batch, side);
      for (const Phase phase : {TRAIN, TEST}) {
        for (const Precision precision : {FP32, BF16, FP16}) {
          if (precision == FP16 && !HasF16OnGpu()) continue;
          const Numbers apart = RunNet(net, phase, precision, 0);
          const Numbers fused = RunNet(net, phase, precision, last.second);
          ExpectSame(apart, fused, ToleranceOf(precision), net);
        }
      }
    }
  }
}

}  // namespace
}  // namespace crema::test
