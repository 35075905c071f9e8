// Conv-BatchNorm fusion (graph/norm_fusion.h): nets learn as without. cuDNN is a stand-in.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "cudnn/cudnn_fixture.h"
#include "cudnn/learnt.h"
#include "graph/replace_sources.h"
#include "support/gpu.h"
#include "support/random_nets.h"

namespace crema::test {
namespace {

using Names = std::vector<std::string>;

class BatchNormFuser : public CudnnTest {
 protected:
  std::shared_ptr<const Plan> PlanWith(const std::string& text, bool fuses,
                                       Precision precision = FP16) const {
    return PlanOn(text, TRAIN, {.passes = {.fuse_batch_norm = fuses}, .precision = precision});
  }
};

std::string Layer(const std::string& type, const std::string& name, const Names& bottoms,
                  const std::string& fields) {
  std::string text = StrCat("layer { type: '", type, "' name: '", name, "' top: '", name, "' ");
  for (const std::string& bottom : bottoms) text += StrCat("bottom: '", bottom, "' ");
  return text + fields + " }\n";
}

std::string Input(int64_t batch, int64_t channels, int64_t side) {
  return StrCat("layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: ", batch,
                " dim: ", channels, " dim: ", side, " dim: ", side + 3, " } } }\n");
}

std::string Convolution(const std::string& name, const std::string& bottom, int64_t outputs,
                        const std::string& fields = "kernel_size: 3 pad: 1") {
  return Layer("Convolution", name, {bottom},
               StrCat("convolution_param { bias_term: false num_output: ", outputs, " ", fields,
                      " weight_filler { type: 'msra' } }"));
}

// "<name>n", Scale "<name>s", ReLU "<name>r".
std::string Norm(const std::string& name, const std::string& bottom, float slope = 0) {
  return Layer("BatchNorm", name + "n", {bottom}, "") +
         Layer("Scale", name + "s", {name + "n"},
               "scale_param { bias_term: true filler { type: 'uniform' min: -2 max: 2 } "
               "bias_filler { type: 'uniform' min: -1 max: 1 } }") +
         Layer("ReLU", name + "r", {name + "s"},
               StrCat("relu_param { negative_slope: ", slope, " }"));
}

std::string Loss(const std::string& bottom) {
  return Layer("Reduction", "loss", {bottom},
               "loss_weight: 0.01 reduction_param { operation: SUMSQ }");
}

// Filters of one pixel, of three, with a stride, and a sum around them.
std::string Bottleneck() {
  return Input(3, 16, 14) + Convolution("a", "x", 32, "kernel_size: 1") + Norm("a", "a") +
         Convolution("b", "ar", 24, "kernel_size: 3 pad: 1 stride: 2") + Norm("b", "b") +
         Convolution("c", "br", 32, "kernel_size: 1") + Layer("BatchNorm", "cn", {"c"}, "") +
         Convolution("p", "x", 32, "kernel_size: 1 stride: 2") +
         Layer("BatchNorm", "pn", {"p"}, "") + Layer("Eltwise", "e", {"pn", "cn"}, "") +
         Layer("ReLU", "er", {"e"}, "") + Convolution("d", "er", 8) + Loss("d");
}

// Factors and offsets are rounded to 11 bits, as the blobs are.
void ExpectSame(const Learnt& expected, const Learnt& learnt, double tolerance = 0.03) {
  EXPECT_NEAR(expected.loss, learnt.loss, tolerance * (std::abs(expected.loss) + 0.1));
  ExpectNear(expected.gradients, learnt.gradients, tolerance, "gradient");
  ExpectNear(expected.statistics, learnt.statistics, tolerance, "statistic");
}

// Returns the root mean square of the relative distances of the gradients from the expected ones.
double Distance(const std::vector<std::vector<float>>& expected,
                const std::vector<std::vector<float>>& given) {
  double sum = 0;
  for (size_t k = 0; k < expected.size(); ++k) {
    double size = 1e-6, difference = 0;
    for (size_t i = 0; i < expected[k].size(); ++i) {
      size += std::pow(double{expected[k][i]}, 2);
      difference += std::pow(double{expected[k][i]} - double{given[k][i]}, 2);
    }
    sum += difference / size;
  }
  return std::sqrt(sum / static_cast<double>(expected.size()));
}

// Marks the roles of layers: "a>" emits sums, ">a" uses sums, "a>>" and ">>a" factors.
Names FusedNormsOf(const Plan& plan) {
  Names names;
  for (const PlannedLayer& layer : plan.layers) {
    const NormFusion& norm_fusion = layer.fusion.norm;
    if (norm_fusion.consumes_sums) names.push_back(StrCat(">", layer.name()));
    if (norm_fusion.consumes_factors) names.push_back(StrCat(">>", layer.name()));
    if (norm_fusion.emits_sums) names.push_back(StrCat(layer.name(), ">"));
    if (norm_fusion.emits_factors) names.push_back(StrCat(layer.name(), ">>"));
  }
  return names;
}

TEST_F(BatchNormFuser, NetsLearnAsWithout) {
  const auto with = PlanWith(Bottleneck(), true), without = PlanWith(Bottleneck(), false);
  EXPECT_EQ(FusedNormsOf(*without), Names());
  EXPECT_EQ(FusedNormsOf(*with), (Names{"a>", ">an", "an>>", ">>b", "b>", ">bn", "bn>>", ">>c",
                                        "c>", ">cn", "p>", ">pn"}));
  const Learnt expected = Learn(PlanText(Bottleneck(), TRAIN), 1);
  ExpectSame(expected, Learn(without, 1));
  ExpectSame(expected, Learn(with, 1));
}

// Other versions may support fusions that the fake, like cuDNN 9.19, refuses.
TEST_F(BatchNormFuser, OtherTypesToo) {
  FakeRules().training_in_any_type = true;
  const Learnt expected = Learn(PlanText(Bottleneck(), TRAIN), 1);
  const auto plan = PlanWith(Bottleneck(), true, TF32);
  EXPECT_EQ(FusedNormsOf(*plan).size(), 12U);
  ExpectSame(expected, Learn(plan, 1), 0.001);
}

// Chains of convolutions, some with several consumers, most with a BatchNorm after them, followed
// by any of Scale, sum and ReLU, in place or not.
class ChainMaker {
 public:
  explicit ChainMaker(uint64_t seed) : random_(seed, HashName("handed")) {}

  std::string Make() {
    text_ = Input(2, 16, 10);
    blobs_ = {"x"};
    for (int i = 0; i < 5; ++i) Block(StrCat("c", i));
    // The sum of squares of a normalised blob is constant.
    return text_ + Convolution("last", blobs_.back(), 8) + Loss("last");
  }

 private:
  bool Draw(uint32_t of) { return random_.Below(next_++, of) != 0; }

  void Block(const std::string& name) {
    const std::string from =
        Draw(4) ? blobs_.back() : blobs_[random_.Below(next_++, blobs_.size())];
    const std::string window = Draw(2) ? "kernel_size: 3 pad: 1" : "kernel_size: 1";
    text_ += Convolution(name, from, Draw(6) ? 16 : 12, window);
    blob_ = name;
    if (Draw(6)) Add("BatchNorm", name + "n", "");
    if (Draw(3)) {
      Add("Scale", name + "s",
          "scale_param { bias_term: true filler { type: 'uniform' min: -2 max: 2 } bias_filler { "
          "type: 'uniform' min: -1 max: 1 } }");
    }
    if (Draw(5)) Add("ReLU", name + "r", Draw(6) ? "" : "relu_param { negative_slope: 0.2 }");
    blobs_.push_back(blob_);
  }

  void Add(const std::string& type, const std::string& name, const std::string& fields) {
    const std::string top = Draw(2) ? blob_ : name;
    text_ += StrCat("layer { type: '", type, "' name: '", name, "' bottom: '", blob_, "' top: '",
                    top, "' ", fields, " }\n");
    blob_ = top;
  }

  const RandomStream random_;
  uint64_t next_ = 0;
  std::string text_, blob_;
  Names blobs_;
};

// Rounding turns ReLUs over, so gradients differ from those in f32; but not more than without.
TEST_F(BatchNormFuser, RandomNetsLearnTheSame) {
  int with = 0, normalising = 0;
  double sum = 0, sum_without = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::string text = ChainMaker(seed).Make();
    SCOPED_TRACE(text);
    const auto plan = PlanWith(text, true);
    const Names norm_fusion = FusedNormsOf(*plan);
    with += !norm_fusion.empty();
    normalising +=
        std::ranges::any_of(norm_fusion, [](const auto& n) { return n.starts_with(">>"); });
    if (norm_fusion.empty()) continue;
    const Learnt expected = Learn(PlanText(text, TRAIN), seed), learnt = Learn(plan, seed);
    EXPECT_NEAR(expected.loss, learnt.loss, 0.01 * expected.loss);
    ASSERT_EQ(expected.gradients.size(), learnt.gradients.size());
    const double own = Distance(expected.gradients, learnt.gradients);
    const double other = Distance(expected.gradients, Learn(PlanWith(text, false), seed).gradients);
    EXPECT_LT(own, 3 * other + 0.03);
    sum += own;
    sum_without += other;
  }
  EXPECT_GT(with, 90);
  EXPECT_GT(normalising, 50);
  EXPECT_LT(sum, 1.25 * sum_without);
}

// Blobs and factors of f32 leave no rounding to tolerate.
TEST_F(BatchNormFuser, RandomNetsLearnTheSameInSinglePrecision) {
  FakeRules().training_in_any_type = true;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::string text = ChainMaker(seed).Make();
    const auto plan = PlanWith(text, true, TF32);
    if (FusedNormsOf(*plan).empty()) continue;
    SCOPED_TRACE(text);
    ExpectSame(Learn(PlanWith(text, false, TF32), seed), Learn(plan, seed), 1e-3);
  }
}

// A batch that is smaller, and of which cuDNN has engines for nothing but plain convolutions.
TEST_F(BatchNormFuser, OwnCodeComputesOtherShapes) {
  const Shape smaller{2, 16, 9, 11};
  const Learnt expected = Learn(PlanWith(Bottleneck(), false), 1, smaller);
  ExpectSame(expected, Learn(PlanWith(Bottleneck(), true), 1, smaller), 0.01);
  AskAnew();
  const auto plan = PlanWith(Bottleneck(), true);
  FakeRules().refuse = [](const auto& operations) {
    return operations.size() > 1 ? "not today" : "";
  };
  ExpectSame(expected, Learn(plan, 1, smaller), 0.01);
}

TEST_F(BatchNormFuser, BatchesMayBeEmpty) {
  const auto plan = PlanWith(Bottleneck(), true);
  for (const auto& gradient : Learn(plan, 1, Shape{0, 16, 14, 17}).gradients) {
    EXPECT_TRUE(std::ranges::all_of(gradient, [](float d) { return d == 0; }));
  }
}

std::string ReasonsOf(const Plan& plan, const std::string& name) {
  std::string reasons;
  for (const SkippedImplementation& skipped : LayerOf(plan, name).skipped) {
    if (skipped.implementation.ends_with(" emitting sums") ||
        skipped.implementation.ends_with(" normalising")) {
      reasons += StrCat(skipped.implementation, ": ", skipped.reason, "; ");
    }
  }
  return reasons;
}

TEST_F(BatchNormFuser, RefusalsAreKept) {
  const std::string net = Input(3, 16, 14) + Convolution("a", "x", 32) + Norm("a", "a") +
                          Convolution("b", "ar", 32) + Norm("b", "b") + Convolution("c", "br", 8) +
                          Loss("c");
  FakeRules().refuse = [](const std::vector<std::string>& operations) {
    return std::ranges::count(operations, "statistics") > 0 ? "no sums today" : "";
  };
  const auto without_sums = PlanWith(net, true);
  EXPECT_EQ(FusedNormsOf(*without_sums), (Names{"an>>", ">>b", "bn>>", ">>c"}));
  EXPECT_NE(ReasonsOf(*without_sums, "a").find("cudnn NHWC f16 emitting sums: "),
            std::string::npos);
  EXPECT_NE(ReasonsOf(*without_sums, "a").find("no sums today"), std::string::npos);
  for (const std::string operation : {"multiply", "norm gradient"}) {
    AskAnew();
    FakeRules().refuse = [=](const std::vector<std::string>& operations) {
      return std::ranges::count(operations, operation) > 0 ? "not normalised" : "";
    };
    const auto sums_alone = PlanWith(net, true);
    EXPECT_EQ(FusedNormsOf(*sums_alone), (Names{"a>", ">an", "b>", ">bn"}));
    EXPECT_NE(ReasonsOf(*sums_alone, "b").find("cudnn NHWC f16 normalising: "), std::string::npos);
    EXPECT_NE(ReasonsOf(*sums_alone, "b").find("not normalised"), std::string::npos);
  }
  FakeRules().refuse = {};
  AskAnew();
  const auto brain_floats = PlanWith(net, true, BF16);
  EXPECT_EQ(FusedNormsOf(*brain_floats), Names());
  EXPECT_NE(ReasonsOf(*brain_floats, "a")
                .find("cudnn NHWC bf16 emitting sums: in BF16 a pass of its own"),
            std::string::npos);
}

TEST_F(BatchNormFuser, WhatNetsDoNotAllowIsSaid) {
  const auto reasons = [&](const std::string& first, const std::string& norm,
                           const std::string& layer) {
    const std::string last = Convolution("b", "ar", 32) + Convolution("c", "b", 8) + Loss("c");
    return ReasonsOf(*PlanWith(Input(3, 16, 14) + first + norm + last, true), layer);
  };
  const std::string biased = Layer("Convolution", "a", {"x"},
                                   "convolution_param { num_output: 32 kernel_size: 3 pad: 1 "
                                   "weight_filler { type: 'msra' } }");
  EXPECT_EQ(reasons(biased, Norm("a", "a"), "a"),
            "cudnn NHWC f16 emitting sums: adds a bias or a ReLU; ");
  EXPECT_EQ(reasons(Convolution("a", "x", 28), Norm("a", "a"), "a"),
            "cudnn NHWC f16 emitting sums: channels are no multiple of 8; ");
  EXPECT_EQ(reasons(Convolution("a", "x", 32), Norm("a", "a", 0.1F), "an"),
            "cuda NHWC f16 normalising: no ReLU with slope 0 follows it; ");
  EXPECT_EQ(reasons(Convolution("a", "x", 32), Norm("a", "a"), "a"), "");
}

TEST_F(BatchNormFuser, LayersThatRunAgainAreLeftAlone) {
  std::string net = Bottleneck();
  const std::string norm = "type: 'BatchNorm' name: 'an'";
  net.insert(net.find(norm), "recompute: true ");
  EXPECT_EQ(FusedNormsOf(*PlanWith(net, true)),
            (Names{"b>", ">bn", "bn>>", ">>c", "c>", ">cn", "p>", ">pn"}));
  EXPECT_EQ(FusedNormsOf(*PlanWith("memory_budget: 1000\n" + Bottleneck(), true)), Names());
}

// Sums of squares around zero cannot give a variance that is a millionth of them.
TEST_F(BatchNormFuser, SmallVariancesAreMeasured) {
  const std::string net = Input(4, 16, 40) + Convolution("a", "x", 32, "kernel_size: 1") +
                          Norm("a", "a") + Convolution("b", "ar", 8, "kernel_size: 1") + Loss("b");
  const auto statistics = [&](bool fuses) {
    const auto plan = PlanWith(net, fuses);
    EXPECT_EQ(LayerOf(*plan, "an").fusion.norm.consumes_sums, fuses);
    const auto weights = Weights::Make(*plan, 3);
    Session session(plan, weights, GpuContext(3));
    std::vector<float> x(static_cast<size_t>(session.MutableData("x").count()));
    const RandomStream stream(1, 2);
    for (size_t i = 0; i < x.size(); ++i) x[i] = 1000 + static_cast<float>(stream.Gaussian(i));
    session.Write(session.MutableData("x"), x.data());
    session.Forward();
    session.ReturnStatistics();
    std::vector<float> variances;
    for (size_t s = 0; s < plan->parameters.size(); ++s) {
      if (plan->parameters[s].role == "variance sum") {
        variances = ValuesOf(std::as_const(*weights).blob(s));
      }
    }
    return variances;
  };
  const std::vector<float> expected = statistics(false), given = statistics(true);
  ASSERT_EQ(expected.size(), 32U);
  for (size_t c = 0; c < expected.size(); ++c) {
    EXPECT_NEAR(given[c], expected[c], 1e-4 * expected[c]) << c;
  }
}

// If nothing is normalised, the rounding of an offset must have no effect.
TEST_F(BatchNormFuser, ConstantChannelsBecomeTheirShift) {
  const std::string net = Input(4, 16, 40) + Convolution("a", "x", 32, "kernel_size: 1") +
                          Norm("a", "a") + Convolution("b", "ar", 8, "kernel_size: 1") + Loss("b");
  const auto with = PlanWith(net, true), without = PlanWith(net, false);
  ASSERT_TRUE(LayerOf(*with, "an").fusion.norm.emits_factors);
  for (const float value : {1.F, 10.F, 300.F}) {
    const auto loss_of = [&](const std::shared_ptr<const Plan>& plan) {
      Session session(plan, Weights::Make(*plan, 3), GpuContext(3));
      std::ranges::fill(session.MutableData("x").span<float>(), value);
      return session.Forward();
    };
    const double expected = loss_of(without);
    EXPECT_NEAR(loss_of(with), expected, 0.01 * expected) << value;
  }
}

TEST_F(BatchNormFuser, InResNet50AllNormsTakeSumsAndConvolutionsAfterReluNormalise) {
  NetFile file = ReadNet(StrCat(CREMA_SOURCE_DIR, "/models/resnet50/train_val.prototxt"));
  ReplaceSources({.given = {}, .batch = 2}, TestRegistry(), &file.net);
  const auto plan_with = [&](bool fuses) {
    NetState state;
    state.set_phase(TRAIN);
    std::vector<Problem> warnings;
    return MakePlan(
        file.net, file.source, state, *registry_,
        {.device = {DeviceType::kCuda, 0}, .passes = {.fuse_batch_norm = fuses}, .precision = FP16},
        &warnings);
  };
  const auto plan = plan_with(true);
  const auto count = [&](bool NormFusion::*what) {
    return std::ranges::count_if(plan->layers, [&](const auto& l) { return l.fusion.norm.*what; });
  };
  EXPECT_EQ(count(&NormFusion::consumes_sums), 52);  // the first convolution has 3 input channels
  EXPECT_EQ(count(&NormFusion::emits_factors), 32);  // of each block the first two
  EXPECT_EQ(count(&NormFusion::consumes_factors), 32);
  EXPECT_LT(plan->arena_bytes, 0.9 * static_cast<double>(plan_with(false)->arena_bytes));
}

}  // namespace
}  // namespace crema::test
