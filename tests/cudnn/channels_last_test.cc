// Nets of 16 bits in channels last: layouts of blobs, and results. cuDNN is a stand-in.
#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
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

class ChannelsLast : public CudnnTest {
 protected:
  // A net of models/.
  std::shared_ptr<const Plan> PlanModel(const std::string& name, Phase phase,
                                        PlanOptions options) const {
    NetFile file = ReadNet(StrCat(CREMA_SOURCE_DIR, "/models/", name));
    ReplaceSources({.given = {}, .batch = 2}, *registry_, &file.net);
    NetState state;
    state.set_phase(phase);
    options.device.type = DeviceType::kCuda;
    options.backward = phase == TRAIN;
    std::vector<Problem> warnings;
    return MakePlan(file.net, file.source, state, *registry_, options, &warnings);
  }
};

std::vector<std::string> ReordersOf(const Plan& plan) {
  std::vector<std::string> names;
  for (const PlannedLayer& layer : plan.layers) {
    if (layer.type->name == "Reorder") names.push_back(layer.name());
  }
  return names;
}

using Names = std::vector<std::string>;

// Layers of these types that read or give other blobs than those in channels last.
Names Others(const Plan& plan, const Names& types) {
  Names others;
  for (const PlannedLayer& layer : plan.layers) {
    if (std::ranges::find(types, layer.type->name) == types.end()) continue;
    const auto last = [&](int v) {
      const BlobSpec& spec = plan.values[static_cast<size_t>(v)].spec;
      return spec.format.layout == Layout::kNHWC ||
             spec.shape.axes() == 2;  // numbers that implementations hand on
    };
    const bool all =
        std::ranges::all_of(layer.inputs, last) && std::ranges::all_of(layer.outputs, last);
    if (!all) others.push_back(layer.name());
  }
  return others;
}

const Names kOfImages{"BatchNorm", "Concat",  "Convolution", "Eltwise",
                      "LRN",       "Pooling", "ReLU",        "Scale"};

TEST_F(ChannelsLast, ResNet50IsTransposedOnceOnItsWayIn) {
  for (const Precision precision : {BF16, FP16}) {
    const std::string halves = precision == BF16 ? "bf16" : "f16";
    const auto deploy = PlanModel("resnet50/deploy.prototxt", TEST, {.precision = precision});
    EXPECT_EQ(ReordersOf(*deploy), (Names{"data_to_NHWC_" + halves, "fc1000_to_NCHW"}));
    EXPECT_EQ(Others(*deploy, kOfImages), Names());
    EXPECT_EQ(LayerOf(*deploy, "conv1").implementation->name, "cudnn NHWC " + halves);
    EXPECT_EQ(LayerOf(*deploy, "conv1").fusion.followers.size(), 3U);
    EXPECT_EQ(LayerOf(*deploy, "fc1000").implementation->input_format,
              (MemoryFormat{Layout::kNHWC, precision == BF16 ? DType::kBF16 : DType::kF16}));
    const auto train = PlanModel("resnet50/train_val.prototxt", TRAIN, {.precision = precision});
    EXPECT_EQ(ReordersOf(*train), (Names{"data_to_NHWC_" + halves, "fc1000_to_NCHW"}));
    EXPECT_EQ(Others(*train, kOfImages), Names());
  }
}

TEST_F(ChannelsLast, ResNet50InTf32Too) {
  const auto train = PlanModel("resnet50/train_val.prototxt", TRAIN, {.precision = TF32});
  EXPECT_EQ(ReordersOf(*train), Names{"data_to_NHWC"});
  EXPECT_EQ(Others(*train, kOfImages), Names());
  EXPECT_EQ(LayerOf(*train, "conv1").implementation->name, "cudnn NHWC tf32");
  EXPECT_EQ(LayerOf(*train, "bn_conv1").implementation->name, "cuda NHWC");
}

// Returns the number of BatchNorms by the number of layers that they fuse.
std::vector<int64_t> CountsOfFused(const Plan& plan) {
  std::vector<int64_t> counts(4);
  for (const PlannedLayer& layer : plan.layers) {
    if (layer.type->name == "BatchNorm") ++counts.at(layer.fusion.followers.size());
  }
  return counts;
}

// The first BatchNorm of a block with a projection runs before the summand is available.
TEST_F(ChannelsLast, ResNet50sNormsFuseSums) {
  for (const Precision precision : {FP32, TF32, BF16, FP16}) {
    const auto train = PlanModel("resnet50/train_val.prototxt", TRAIN, {.precision = precision});
    // 118 layers: 53 Scale, 16 Eltwise, 49 ReLU, which is all of them.
    EXPECT_EQ(CountsOfFused(*train), (std::vector<int64_t>{0, 4, 33, 16}));
    EXPECT_EQ(LayerOf(*train, "bn2a_branch2c").fusion.followers.size(), 3U);
    EXPECT_EQ(LayerOf(*train, "bn2a_branch1").fusion.followers.size(), 1U);
  }
}

TEST_F(ChannelsLast, OtherNetsOfImagesToo) {
  const auto train = [&](const std::string& name) {
    return PlanModel(name + "/train_val.prototxt", TRAIN, {.precision = BF16});
  };
  // Before the first InnerProduct, maps are larger than a pixel.
  EXPECT_EQ(ReordersOf(*train("vgg16")),
            (Names{"data_to_NHWC_bf16", "pool5_to_NCHW_bf16", "fc8_to_NCHW"}));
  EXPECT_EQ(ReordersOf(*train("mobilenet_v2")), (Names{"data_to_NHWC_bf16", "fc10_to_NCHW"}));
  EXPECT_EQ(Others(*train("googlenet"), kOfImages), Names());
}

TEST_F(ChannelsLast, SinglePrecisionAndNetsWithoutThePassStayAsTheyAre) {
  for (const PlanOptions& options :
       {PlanOptions{}, PlanOptions{.passes = {.memory_formats = false}, .precision = TF32},
        PlanOptions{.passes = {.memory_formats = false}, .precision = BF16},
        PlanOptions{.optimize = false, .precision = BF16}}) {
    const auto plan = PlanModel("resnet50/train_val.prototxt", TRAIN, options);
    EXPECT_EQ(ReordersOf(*plan), Names());
    EXPECT_EQ(LayerOf(*plan, "conv1").implementation->input_format, MemoryFormat{});
  }
}

// Our own code multiplies halves as they lie in NCHW.
TEST_F(ChannelsLast, WhatCudnnRefusesStaysNchw) {
  FakeRules().refuse = [](const auto&) { return "not today"; };
  const auto plan = PlanModel("resnet50/train_val.prototxt", TRAIN, {.precision = BF16});
  for (const PlannedValue& value : plan->values) EXPECT_NE(value.spec.format.layout, Layout::kNHWC);
  EXPECT_EQ(LayerOf(*plan, "conv1").implementation->name, "cuda bf16");
}

bool HasChannelsLast(const Plan& plan) {
  return std::ranges::any_of(plan.values, [](const PlannedValue& value) {
    return value.spec.format.layout == Layout::kNHWC;
  });
}

// The stand-in computes graphs only.
bool IsOfGraphs(const PlannedLayer& layer) {
  return layer.type->name == "Convolution" || layer.implementation == nullptr ||
         !layer.implementation->name.starts_with("cudnn");
}

// The results of the CPU implementations in f32, except for rounding to 11 bits: of all blobs and
// weights, or with TF32 where InnerProduct multiplies (the fake cuDNN does not round so).
TEST_F(ChannelsLast, RandomNetsLearnTheSame) {
  for (const auto& [precision, tolerance] : {std::pair{FP16, 0.03}, {TF32, 0.004}}) {
    int with = 0;
    for (uint64_t seed = 0; seed < 60; ++seed) {
      const std::string text = NetMaker(seed, Kind::kSmooth).Make();
      SCOPED_TRACE(text);
      const auto plan = PlanOn(text, TRAIN, {.precision = precision});
      if (!HasChannelsLast(*plan) || !std::ranges::all_of(plan->layers, IsOfGraphs)) continue;
      ++with;
      const Learnt expected = Learn(PlanText(text, TRAIN), seed);
      const Learnt learnt = Learn(plan, seed);
      EXPECT_NEAR(expected.loss, learnt.loss, tolerance * (std::abs(expected.loss) + 0.1));
      ExpectNear(expected.gradients, learnt.gradients, tolerance, "gradient");
    }
    EXPECT_GT(with, 30) << Precision_Name(precision);
  }
}

// BatchNorm, fused with the Scale and the ReLU after it, computes statistics of interleaved
// channels.
TEST_F(ChannelsLast, NormsFuseLaterLayers) {
  const std::string net = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 3 dim: 3 dim: 14 dim: 9 } } }
layer { name: "c1" type: "Convolution" bottom: "x" top: "c1"
  convolution_param { num_output: 32 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } }
layer { name: "bn" type: "BatchNorm" bottom: "c1" top: "bn" }
layer { name: "s" type: "Scale" bottom: "bn" top: "s"
  scale_param { bias_term: true filler { type: "uniform" min: -2 max: 2 }
                bias_filler { type: "uniform" min: -1 max: 1 } } }
layer { name: "r" type: "ReLU" bottom: "s" top: "s" }
layer { name: "c2" type: "Convolution" bottom: "s" top: "c2"
  convolution_param { num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } }
layer { name: "loss" type: "Reduction" bottom: "c2" top: "loss" loss_weight: 0.01
  reduction_param { operation: SUMSQ } }
)";
  const Learnt expected = Learn(PlanText(net, TRAIN), 1);
  for (const auto& [precision, tolerance] : {std::pair{TF32, 0.001}, {FP16, 0.03}}) {
    const auto plan = PlanOn(net, TRAIN, {.precision = precision});
    const PlannedLayer& norm = LayerOf(*plan, "bn");
    ASSERT_EQ(plan->values[static_cast<size_t>(norm.inputs[0])].spec.format.layout, Layout::kNHWC);
    EXPECT_EQ(norm.fusion.followers.size(), 2U);
    const Learnt learnt = Learn(plan, 1);
    EXPECT_NEAR(expected.loss, learnt.loss, tolerance * (std::abs(expected.loss) + 0.1));
    ExpectNear(expected.gradients, learnt.gradients, tolerance, "gradient");
  }
}

// Two blocks, the first with a projection: others also read the summand.
std::string Blocks() {
  std::string net = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 3 dim: 16 dim: 14 dim: 9 } } }
layer { name: "p" type: "Convolution" bottom: "x" top: "p"
  convolution_param { num_output: 32 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } }
layer { name: "pn" type: "BatchNorm" bottom: "p" top: "pn" }
)";
  for (const auto& [in, z, out] : {std::tuple{"x", "pn", "a"}, {"ar", "ar", "b"}}) {
    const auto layer = [out = out](const char* type, const std::string& bottoms, const char* name,
                                   const char* fields) {
      return StrCat("layer { type: '", type, "' ", bottoms, " name: '", out, name, "' top: '", out,
                    name, "' ", fields, " }\n");
    };
    const auto from = [](const auto&... blob) { return StrCat("bottom: '", blob..., "' "); };
    net += layer("Convolution", from(in), "c",
                 "convolution_param { num_output: 32 kernel_size: 3 pad: 1 weight_filler { type: "
                 "'msra' } }") +
           layer("BatchNorm", from(out, "c"), "n", "") +
           layer("Scale", from(out, "n"), "s",
                 "scale_param { bias_term: true filler { type: 'uniform' min: -2 max: 2 } }") +
           layer("Eltwise", from(z) + from(out, "s"), "e", "") +
           layer("ReLU", from(out, "e"), "r", "");
  }
  return net + R"(
layer { name: "c" type: "Convolution" bottom: "br" top: "c"
  convolution_param { num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } }
layer { name: "loss" type: "Reduction" bottom: "c" top: "loss" loss_weight: 0.01
  reduction_param { operation: SUMSQ } }
)";
}

TEST_F(ChannelsLast, NormsFuseSums) {
  const Learnt expected = Learn(PlanText(Blocks(), TRAIN), 1);
  // bf16 has three bits less than f16.
  for (const auto& [precision, tolerance] : {std::pair{TF32, 0.001}, {FP16, 0.03}, {BF16, 0.2}}) {
    const auto plan = PlanOn(Blocks(), TRAIN, {.precision = precision});
    EXPECT_TRUE(LayerOf(*plan, "pn").fusion.followers.empty());
    for (const char* name : {"an", "bn"}) {
      const PlannedLayer& norm = LayerOf(*plan, name);
      EXPECT_EQ(norm.fusion.followers.size(), 3U);
      for (const int v : norm.inputs) {
        EXPECT_EQ(plan->values[static_cast<size_t>(v)].spec.format.layout, Layout::kNHWC);
      }
    }
    const Learnt learnt = Learn(plan, 1);
    EXPECT_NEAR(expected.loss, learnt.loss, tolerance * (std::abs(expected.loss) + 0.1));
    ExpectNear(expected.gradients, learnt.gradients, tolerance, "gradient");
  }
}

// Smaller shapes use the same implementations.
TEST_F(ChannelsLast, BatchesMayBeSmallerThanPlanned) {
  const std::string net = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 16 dim: 24 dim: 20 } } }
layer { name: "c1" type: "Convolution" bottom: "x" top: "c1"
  convolution_param { num_output: 32 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } }
layer { name: "r1" type: "ReLU" bottom: "c1" top: "c1" }
layer { name: "p1" type: "Pooling" bottom: "c1" top: "p1" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "c2" type: "Convolution" bottom: "p1" top: "c2"
  convolution_param { num_output: 32 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } }
layer { name: "j" type: "Concat" bottom: "c2" bottom: "p1" top: "j" }
)";
  const auto plan = PlanOn(net, TEST, {.precision = BF16});
  ASSERT_TRUE(HasChannelsLast(*plan));
  Session session(plan, Weights::Make(*plan, 3), GpuContext(3));
  FillInput(&session, "x", 1);
  session.Forward();
  const std::vector<float> whole = ValuesOf(session.Data("j"));
  for (const int64_t batch : {1, 3}) {
    session.Reshape("x", {batch, 16, 24, 20});
    FillInput(&session, "x", 1);
    session.Forward();
    const std::vector<float> part = ValuesOf(session.Data("j"));
    ASSERT_EQ(part.size(), whole.size() / 4 * static_cast<size_t>(batch));
    EXPECT_TRUE(std::ranges::equal(part, std::span(whole).first(part.size())));
  }
  // If cuDNN refuses a convolution, Crema's code computes it, on the same blobs except for the
  // order of sums.
  FakeRules().refuse = [](const auto&) { return "not today"; };
  FakeCounts().runs.clear();
  session.Reshape("x", {2, 16, 24, 20});
  FillInput(&session, "x", 1);
  session.Forward();
  EXPECT_TRUE(FakeCounts().runs.empty());
  const std::vector<float> part = ValuesOf(session.Data("j"));
  const auto same = std::span(whole).first(part.size());
  ExpectNear({{same.begin(), same.end()}}, {part}, 0.01, "by own code");
}

// A chain of convolutions: casts before and after them pay.
std::string Chain(const std::string& bottom, const std::string& name) {
  std::string text, last = bottom;
  for (int i = 0; i < 4; ++i) {
    const std::string top = StrCat(name, i);
    text += StrCat("layer { name: '", top, "' type: 'Convolution' bottom: '", last, "' top: '", top,
                   "' convolution_param { num_output: 24 kernel_size: 3 pad: 1 weight_filler { "
                   "type: 'msra' } } }\n");
    last = top;
  }
  return text;
}

// Values that a Slice passes to both an Embed and a convolution stay f32.
TEST_F(ChannelsLast, IdsAreNotRounded) {
  const std::string net = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 32 dim: 64 dim: 64 } } }
layer { name: "s" type: "Slice" bottom: "x" top: "ids" top: "rest"
  slice_param { axis: 1 slice_point: 1 } }
layer { name: "e" type: "Embed" bottom: "ids" top: "e" embed_param { num_output: 2 input_dim: 5000 } }
)";
  const auto plan = PlanOn(net + Chain("rest", "c"), TEST, {.precision = BF16});
  const auto format_of = [&](const char* blob) {
    return plan->values[static_cast<size_t>(plan->FindFirstValue(blob))].spec.format;
  };
  EXPECT_EQ(format_of("ids"), MemoryFormat{});
  EXPECT_EQ(format_of("rest"), MemoryFormat{});
  EXPECT_EQ(format_of("c0"), (MemoryFormat{Layout::kNHWC, DType::kBF16}));
}

// The draws are those of the places in NCHW.
TEST_F(ChannelsLast, DropoutHasTheSameMask) {
  const std::string net =
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 16 dim: 31 dim: "
      "33 } } }" +
      Chain("x", "c") + "layer { name: 'r' type: 'Dropout' bottom: 'c3' top: 'r' }" +
      Chain("r", "d") +
      "layer { name: 'l' type: 'Reduction' bottom: 'd3' top: 'l' loss_weight: 0.001 "
      "reduction_param { "
      "operation: SUMSQ } }";
  const auto plan = PlanOn(net, TRAIN, {.precision = FP16});
  EXPECT_EQ(LayerOf(*plan, "r").implementation->name, "cuda NHWC f16");
  const Learnt halves = Learn(plan, 1), single = Learn(PlanOn(net, TRAIN), 1);
  EXPECT_NEAR(halves.loss, single.loss, 0.01 * single.loss);
  ExpectNear(single.gradients, halves.gradients, 0.01, "gradient");
}

// After maps of one pixel nothing is transposed.
TEST_F(ChannelsLast, InnerProductsTakeOnePixelAsItIs) {
  const std::string net =
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 3 dim: 16 dim: 31 dim: "
      "33 } } }" +
      Chain("x", "c") +
      "layer { name: 'p' type: 'Pooling' bottom: 'c3' top: 'p' pooling_param { pool: AVE "
      "global_pooling: true } } layer { name: 'ip' type: 'InnerProduct' bottom: 'p' top: 'ip' "
      "inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } } layer { name: 'r' "
      "type: 'ReLU' bottom: 'ip' top: 'ip' } layer { name: 'l' type: 'Reduction' bottom: 'ip' top: "
      "'l' loss_weight: 1 reduction_param { operation: SUMSQ } }";
  const auto plan = PlanOn(net, TRAIN, {.precision = FP16});
  EXPECT_EQ(LayerOf(*plan, "ip").implementation->input_format,
            (MemoryFormat{Layout::kNHWC, DType::kF16}));
  EXPECT_EQ(LayerOf(*plan, "ip").implementation->output_format, MemoryFormat{.type = DType::kF16});
  const Learnt halves = Learn(plan, 1), single = Learn(PlanText(net, TRAIN), 1);
  EXPECT_NEAR(halves.loss, single.loss, 0.01 * single.loss);
  ExpectNear(single.gradients, halves.gradients, 0.02, "gradient");
}

// For one image, the inputs of Concat are contiguous in NCHW, but not in channels last.
TEST_F(ChannelsLast, ConcatOfOneImageIsNotJoined) {
  std::string net =
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 16 dim: 32 dim: "
      "32 } } }";
  for (const char* name : {"a", "b"}) {
    net += StrCat("layer { name: '", name, "' type: 'Convolution' bottom: 'x' top: '", name,
                  "' convolution_param { num_output: 32 kernel_size: 3 pad: 1 weight_filler { "
                  "type: 'msra' } } }");
  }
  net +=
      "layer { name: 'j' type: 'Concat' bottom: 'a' bottom: 'b' top: 'j' } layer { name: 'y' "
      "type: 'Convolution' bottom: 'j' top: 'y' convolution_param { num_output: 32 kernel_size: 1 "
      "weight_filler { type: 'msra' } } }";
  const auto values = [&](Precision precision) {
    const auto plan = PlanOn(net, TEST, {.precision = precision});
    EXPECT_EQ(LayerOf(*plan, "j").concat_in_place == ConcatPlace::kContiguous, precision == FP32);
    Session session(plan, Weights::Make(*plan, 3), GpuContext(3));
    FillInput(&session, "x", 1);
    session.Forward();
    return ValuesOf(session.Data("y"));
  };
  ExpectNear({values(FP32)}, {values(BF16)}, 0.02, "y");
}

}  // namespace
}  // namespace crema::test
