// BatchNorm on a GPU or its emulation, with a following sum fused: results as for separate layers.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "gpu/fused_runs.h"

namespace crema::test {
namespace {

std::string LayerText(const std::string& name, const std::string& type, const std::string& bottoms,
                      const std::string& fields = "") {
  std::string text = StrCat("layer { name: '", name, "' type: '", type, "' top: '", name, "' ");
  for (size_t at = 0; at < bottoms.size();) {
    const size_t end = std::min(bottoms.find(' ', at), bottoms.size());
    text += StrCat("bottom: '", bottoms.substr(at, end - at), "' ");
    at = end + 1;
  }
  return StrCat(text, fields, " }\n");
}

std::string PointConvolution(const std::string& name, const std::string& bottom, int channels) {
  return LayerText(name, "Convolution", bottom,
                   StrCat("convolution_param { num_output: ", channels,
                          " kernel_size: 1 weight_filler { type: 'msra' } }"));
}

std::string Input(const std::string& name, int64_t channels, int64_t batch, int64_t side) {
  return LayerText(name, "Input", "",
                   StrCat("input_param { shape { dim: ", batch, " dim: ", channels, " dim: ", side,
                          " dim: ", side + 1, " } }"));
}

const std::string kScaleOfSum =
    LayerText("s", "Scale", "bn",
              "scale_param { bias_term: true filler { type: 'uniform' min: -2 "
              "max: 2 } bias_filler { type: 'uniform' min: -1 max: 1 } }");
const std::string kNorm = LayerText("bn", "BatchNorm", "c");
const std::string kRelu = LayerText("r", "ReLU", "e");

std::string Sum(const std::string& bottoms, const std::string& fields = "") {
  return LayerText("e", "Eltwise", bottoms, fields);
}

// Returns a convolution that reads `last`, one that reads `also`, and the loss of their sum.
std::string LossText(const std::string& last, const std::string& also) {
  return PointConvolution("d", last, 4) + PointConvolution("g", also, 4) +
         LayerText("dg", "Eltwise", "d g") +
         LayerText("loss", "Reduction", "dg",
                   "loss_weight: 0.05 reduction_param { operation: SUMSQ }");
}

struct SumCase {
  std::string z;  // layers that make it
  std::string after;
  std::string last;
  std::string also;  // another blob that is read
  size_t fused;
  bool halves = true;  // also in 16 bits
};

std::vector<SumCase> Cases(int64_t batch, int64_t side) {
  const std::string made = PointConvolution("z", "x", 16), given = Input("z", 16, batch, side);
  return {
      {made, Sum("bn z"), "e", "x", 1},
      {made, Sum("z bn") + kRelu, "r", "z", 2},
      {made, kScaleOfSum + Sum("z s"), "e", "z", 2},
      {made, kScaleOfSum + Sum("s z", "eltwise_param { coeff: 1 coeff: 1 }") + kRelu, "r", "z", 3},
      {made,
       kScaleOfSum + Sum("s z") +
           LayerText("r", "ReLU", "e", "relu_param { negative_slope: 0.25 }"),
       "r", "x", 3},
      // z is what BatchNorm reads too.
      {"", kScaleOfSum + Sum("c s") + kRelu, "r", "c", 3},
      // The gradient of z is not needed. In 16 bits it is converted after BatchNorm.
      {given, kScaleOfSum + Sum("z s") + kRelu, "r", "x", 3, false},
      {made, kScaleOfSum + Sum("s z", "propagate_down: true propagate_down: false") + kRelu, "r",
       "x", 3},
  };
}

TEST(GpuFusedSum, IsAsEachByItself) {
  for (const auto& [batch, side] : {std::pair{3, 7}, {1, 1}, {2, 90}}) {
    for (const SumCase& c : Cases(batch, side)) {
      const std::string net = Input("x", 5, batch, side) + PointConvolution("c", "x", 16) + c.z +
                              kNorm + c.after + LossText(c.last, c.also);
      for (const Phase phase : {TRAIN, TEST}) {
        for (const Precision precision : {FP32, BF16, FP16}) {
          if (precision == FP16 && !HasF16OnGpu()) continue;
          if (precision != FP32 && !c.halves) continue;
          const Numbers apart = RunNet(net, phase, precision, 0);
          const Numbers fused = RunNet(net, phase, precision, c.fused);
          ExpectSame(apart, fused, ToleranceOf(precision), net);
        }
      }
    }
  }
}

std::shared_ptr<const Plan> PlanOnGpu(const std::string& net) {
  return PlanText(net, TRAIN, {.device = {DeviceType::kCuda, 0}});
}

TEST(GpuFusedSum, LeavesWhatItCannotDo) {
  const std::string before =
      Input("x", 5, 2, 6) + PointConvolution("c", "x", 16) + PointConvolution("z", "x", 16);
  const auto fused = [&](const std::string& norm, const std::string& after) {
    const auto plan = PlanOnGpu(before + norm + after + LossText("e", "x"));
    std::vector<std::string> names;
    for (const int n : Norm(*plan).fusion.followers) {
      names.push_back(plan->layers[static_cast<size_t>(n)].name());
    }
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(fused(kNorm, kScaleOfSum + Sum("s z")), (Names{"s", "e"}));
  EXPECT_EQ(fused(kNorm, kScaleOfSum + Sum("s z", "eltwise_param { coeff: 1 coeff: -1 }")),
            Names{"s"});
  EXPECT_EQ(fused(kNorm, kScaleOfSum + Sum("s z", "eltwise_param { operation: PROD }")),
            Names{"s"});
  EXPECT_EQ(fused(kNorm, kScaleOfSum + PointConvolution("w", "x", 16) + Sum("s z w")), Names{"s"});
  // Not available yet when BatchNorm runs.
  EXPECT_EQ(fused(kNorm, kScaleOfSum + PointConvolution("w", "x", 16) + Sum("s w")), Names{"s"});
  // Other layers of two blobs, one of them extended to the shape of the other.
  EXPECT_EQ(fused(kNorm, LayerText("e", "Scale", "bn z", "scale_param { axis: 0 }")), Names());
  EXPECT_EQ(fused(LayerText("p", "Pooling", "z", "pooling_param { global_pooling: true }") +
                      LayerText("f", "Flatten", "p") + kNorm,
                  LayerText("e", "Bias", "bn f", "bias_param { axis: 0 }")),
            Names());
  // Stored statistics, a sum after the ReLU, and one in which x does not contribute to the
  // gradient.
  EXPECT_EQ(fused(LayerText("bn", "BatchNorm", "c", "batch_norm_param { use_global_stats: true }"),
                  kScaleOfSum + Sum("s z")),
            Names());
  EXPECT_EQ(fused(kNorm, LayerText("r", "ReLU", "bn") + Sum("r z")), Names{"r"});
  EXPECT_EQ(fused(kNorm, kScaleOfSum + Sum("z s", "propagate_down: true propagate_down: false")),
            Names{"s"});
}

// After a ReLU the backward pass needs y, and not z.
TEST(GpuFusedSum, KeepsWhatBackwardReads) {
  const std::string before = Input("x", 5, 2, 6) + PointConvolution("c", "x", 16) +
                             PointConvolution("z", "x", 16) + kNorm + kScaleOfSum + Sum("z s");
  for (const bool relu : {false, true}) {
    const auto plan = PlanOnGpu(before + (relu ? kRelu : "") + LossText(relu ? "r" : "e", "x"));
    const PlannedLayer& norm = Norm(*plan);
    EXPECT_EQ(norm.info.backward_reads_input, std::vector<bool>{true});
    EXPECT_EQ(norm.info.backward_reads_output, std::vector<bool>{relu});
    ASSERT_EQ(norm.inputs.size(), 2U);
    EXPECT_EQ(norm.fusion.extra_inputs, 1U);
    EXPECT_EQ(norm.to_input, (std::vector<bool>{true, true}));
    // The gradient of z overwrites that of the output; that of x does not.
    const auto gradient = [&](int v) {
      return plan->values[static_cast<size_t>(v)].gradient.offset;
    };
    const int last = plan->layers[static_cast<size_t>(norm.fusion.followers.back())].outputs[0];
    EXPECT_EQ(gradient(norm.inputs[1]), gradient(last));
    EXPECT_NE(gradient(norm.inputs[0]), gradient(last));
  }
}

TEST(GpuFusedSum, TakesSmallerBatches) {
  const std::string net = Input("x", 5, 4, 40) + PointConvolution("c", "x", 16) +
                          PointConvolution("z", "x", 16) + kNorm + kScaleOfSum + Sum("z s") +
                          kRelu + LossText("r", "z");
  for (const Phase phase : {TRAIN, TEST}) {
    for (const Precision precision : {FP32, BF16, FP16}) {
      if (precision == FP16 && !HasF16OnGpu()) continue;
      const Shape smaller{3, 5, 21, 30};
      const Numbers apart = RunNet(net, phase, precision, 0, smaller);
      const Numbers fused = RunNet(net, phase, precision, 3, smaller);
      ExpectSame(apart, fused, ToleranceOf(precision), net);
    }
  }
}

// Run forward again in the backward pass, it adds the same blob again.
TEST(GpuFusedSum, RunsAgain) {
  std::string net = Input("x", 5, 8, 90);
  std::string last = "x";
  for (int i = 0; i < 3; ++i) {
    const auto name = [&](const char* kind) { return StrCat(kind, i == 0 ? "" : StrCat(i)); };
    net += PointConvolution(name("z"), last, 16) + PointConvolution(name("c"), last, 16) +
           LayerText(name("bn"), "BatchNorm", name("c")) +
           LayerText(name("e"), "Eltwise", StrCat(name("z"), " ", name("bn"))) +
           LayerText(name("r"), "ReLU", name("e"));
    last = name("r");
  }
  net += LossText(last, "x");
  const auto whole = PlanOnGpu(net);
  const int64_t budget = whole->arena_bytes / (1 << 20) - 4;
  const std::string tight = StrCat("memory_budget: ", budget, "\n", net);
  const auto plan = PlanOnGpu(tight);
  EXPECT_TRUE(Norm(*plan).recompute);
  EXPECT_EQ(Norm(*plan).fusion.followers.size(), 2U);
  const Numbers kept = RunNet(net, TRAIN, FP32, 2), again = RunNet(tight, TRAIN, FP32, 2);
  EXPECT_EQ(kept.losses, again.losses);
  EXPECT_EQ(kept.gradients, again.gradients);
  EXPECT_EQ(kept.weights, again.weights);
}

}  // namespace
}  // namespace crema::test
