// Blocked values, the places of Reorders, and fused layers.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/bfloat16.h"
#include "core/memory_format.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "plan/plan_parts.h"
#include "support/net.h"

namespace crema {
namespace {

using test::LayerOf;
using test::PlanText;

std::string SquareInput(int channels, int side) {
  return StrCat("layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: ",
                channels, " dim: ", side, " dim: ", side, " } } }\n");
}

std::string PaddedConv(const std::string& name, const std::string& bottom, int outputs,
                       const std::string& more = "") {
  return StrCat("layer { name: '", name, "' type: 'Convolution' bottom: '", bottom, "' top: '",
                name, "' convolution_param { kernel_size: 3 num_output: ", outputs,
                more.find("pad") == std::string::npos ? " pad: 1" : "",
                " weight_filler { type: 'xavier' } ", more, " } }\n");
}

std::string LayerOnBlobs(const std::string& type, const std::string& name,
                         const std::string& bottoms, const std::string& fields = "") {
  std::string text = StrCat("layer { name: '", name, "' type: '", type, "' top: '", name, "' ");
  for (const std::string& bottom : Split(bottoms, ' ')) text += StrCat("bottom: '", bottom, "' ");
  return text + fields + " }\n";
}

std::vector<std::string> NamesOf(const Plan& plan, const std::string& type) {
  std::vector<std::string> names;
  for (const PlannedLayer& layer : plan.layers) {
    if (layer.type->name == type) names.push_back(layer.name());
  }
  return names;
}

// Implementations of GPUs are planned with, not run.
TEST(HalfFormats, IdsAreNotRoundedOnTheirWay) {
  const auto& implementations = test::TestRegistry().Find("Permute")->implementations;
  if (std::ranges::find(implementations, DeviceType::kCuda, &Implementation::device) ==
      implementations.end()) {
    GTEST_SKIP() << "this build has no implementations for GPUs";
  }
  const std::string swap = "permute_param { order: 1 order: 0 order: 2 order: 3 }";
  const std::string text =
      "precision: BF16\n"
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 64 dim: 4 dim: 256 "
      "dim: 256 } } }\n" +
      LayerOnBlobs("Permute", "p", "x", swap) +
      "layer { name: 's' type: 'Slice' bottom: 'p' top: 'sa' top: 'sb' slice_param { axis: 0 } "
      "}\n" +
      LayerOnBlobs("Concat", "j", "sb sa", "concat_param { axis: 0 }") +
      LayerOnBlobs("Permute", "q", "j", swap) +
      LayerOnBlobs("Embed", "e", "q", "embed_param { num_output: 2 input_dim: 5000 }") +
      // The output of a convolution may be moved in its layout.
      PaddedConv("c", "x", 64) + LayerOnBlobs("Permute", "r", "c", swap) +
      LayerOnBlobs("Permute", "t", "r", swap) + PaddedConv("d", "t", 64);
  PlanOptions options{.device = {DeviceType::kCuda, 0}, .backward = false};
  const auto plan = PlanText(text, TEST, options);
  for (const char* name : {"p", "sa", "sb", "j", "q"}) {
    const PlannedValue& value = plan->values[static_cast<size_t>(plan->FindFirstValue(name))];
    EXPECT_EQ(value.spec.format, MemoryFormat{}) << name;
  }
  for (const char* name : {"c", "r", "t"}) {
    const PlannedValue& value = plan->values[static_cast<size_t>(plan->FindFirstValue(name))];
    EXPECT_EQ(value.spec.format, MemoryFormat{.type = DType::kBF16}) << name;
  }
}

class MemoryFormats : public testing::Test {
 protected:
  void SetUp() override {
    const std::vector<ImplementationPtr>& implementations =
        test::TestRegistry().Find("Convolution")->implementations;
    if (std::ranges::find(implementations, "onednn", &Implementation::name) ==
        implementations.end()) {
      GTEST_SKIP() << "this build has no oneDNN";
    }
    if (ChannelBlock() == 0)
      GTEST_SKIP() << "this processor has no implementations on blocked blobs";
    to_plain_ = "_to_NCHW";
  }
  std::string to_plain_;
};

TEST_F(MemoryFormats, StayBlockedFromLayerToLayer) {
  const auto plan =
      PlanText(SquareInput(3, 32) + PaddedConv("a", "x", 32) + LayerOnBlobs("ReLU", "r", "a") +
               LayerOnBlobs("Pooling", "p", "r", "pooling_param { kernel_size: 2 stride: 2 }") +
               PaddedConv("b", "p", 32) + PaddedConv("c", "b", 32) +
               LayerOnBlobs("Eltwise", "e", "b c") + LayerOnBlobs("Concat", "j", "e p") +
               LayerOnBlobs("LRN", "n", "j") + LayerOnBlobs("Flatten", "f", "n"));
  // For AVX2 oneDNN has no LRN on blocked blobs.
  const bool wide = ChannelBlock() == 16;
  EXPECT_EQ(NamesOf(*plan, "Reorder"), std::vector<std::string>{(wide ? "n" : "j") + to_plain_});
  EXPECT_EQ(LayerOf(*plan, "a").implementation->name, "onednn, plain input");
  EXPECT_EQ(LayerOf(*plan, "c").implementation->input_format, MemoryFormat{Layout::kBlocked});
  EXPECT_EQ(LayerOf(*plan, "p").implementation->name, "onednn");
  EXPECT_EQ(LayerOf(*plan, "n").implementation->name, wide ? "onednn" : "native");
  EXPECT_NE(DescribePlan(*plan).find("1 reorder"), std::string::npos) << DescribePlan(*plan);
}

TEST_F(MemoryFormats, StayBlockedThroughPReluAndDeconvolutionUpToInnerProduct) {
  const auto plan = PlanText(
      SquareInput(32, 16) + PaddedConv("a", "x", 32) + LayerOnBlobs("PReLU", "p", "a") +
      LayerOnBlobs("Deconvolution", "d", "p",
                   "convolution_param { num_output: 32 kernel_size: 4 stride: 2 pad: 1 }") +
      PaddedConv("b", "d", 48) +
      LayerOnBlobs("InnerProduct", "ip", "b", "inner_product_param { num_output: 5 }"));
  EXPECT_EQ(NamesOf(*plan, "Reorder"),
            std::vector<std::string>{"x_to_" + ToString(MemoryFormat{Layout::kBlocked})});
  EXPECT_EQ(LayerOf(*plan, "p").implementation->name, "blocked");
  EXPECT_EQ(LayerOf(*plan, "d").implementation->name, "onednn");
  EXPECT_EQ(LayerOf(*plan, "ip").implementation->name, "onednn, blocked input");
}

// Whole blocks of channels, and a part of a block more.
TEST_F(MemoryFormats, LargeBlobsStayBlockedBesideASmallPlainOne) {
  const auto conv = [](const std::string& name, const std::string& bottom, int outputs,
                       const std::string& more) {
    return LayerOnBlobs("Convolution", name, bottom,
                        StrCat("convolution_param { num_output: ", outputs, " ", more, " }"));
  };
  for (const int channels : {64, 72}) {
    const auto plan = PlanText(
        SquareInput(3, 64) + PaddedConv("a", "x", channels) + LayerOnBlobs("HardSwish", "h", "a") +
            conv("d", "h", channels, StrCat("kernel_size: 5 pad: 2 group: ", channels)) +
            LayerOnBlobs("SiLU", "i", "d") +
            LayerOnBlobs("Pooling", "p", "i", "pooling_param { pool: AVE global_pooling: true }") +
            conv("squeeze", "p", 16, "kernel_size: 1") + LayerOnBlobs("ReLU", "r", "squeeze") +
            conv("excite", "r", channels, "kernel_size: 1") +
            LayerOnBlobs("Sigmoid", "s", "excite") +
            LayerOnBlobs("Reshape", "gate", "s", "reshape_param { shape { dim: 0 dim: -1 } }") +
            LayerOnBlobs("Scale", "e", "i gate", "scale_param { axis: 0 }") +
            conv("b", "e", channels, "kernel_size: 1") + LayerOnBlobs("Eltwise", "t", "i b") +
            LayerOnBlobs("Upsample", "u", "t", "upsample_param { scale: 2 }") +
            LayerOnBlobs("Pad", "w", "u", "pad_param { pad: 1 }") + PaddedConv("c", "w", 64),
        TEST, {.backward = false});
    EXPECT_EQ(LayerOf(*plan, "e").implementation->name, "blocked, plain factors");
    EXPECT_EQ(LayerOf(*plan, "d").implementation->name, "onednn");
    for (const PlannedLayer& layer : plan->layers) {
      if (layer.type->name != "Reorder") continue;
      const Shape& shape = plan->values[static_cast<size_t>(layer.inputs[0])].spec.shape;
      EXPECT_TRUE(shape.count(2) == 1 || layer.name() == "c" + to_plain_) << layer.name() << "\n"
                                                                          << DescribePlan(*plan);
    }
  }
}

TEST_F(MemoryFormats, GroupsOfPartsOfABlockAreJoined) {
  const auto channels = static_cast<int>(ChannelBlock() / 2 * 13);
  const std::string text = SquareInput(64, 28) + PaddedConv("p", "x", channels) +
                           PaddedConv("a", "p", channels, "group: 13") +
                           LayerOnBlobs("ReLU", "r", "a") +
                           PaddedConv("b", "r", channels, "group: 13") + PaddedConv("q", "b", 64);
  const auto plan = PlanText(text, TEST, {.backward = false});
  EXPECT_EQ(LayerOf(*plan, "a").implementation->name, "onednn, joined groups");
  EXPECT_EQ(LayerOf(*plan, "a").fusion.followers.size(), 1U);
  EXPECT_EQ(LayerOf(*plan, "b").implementation->name, "onednn, joined groups");
  const auto trained = PlanText(text + LayerOnBlobs("Reduction", "loss", "q", "loss_weight: 1"));
  EXPECT_EQ(LayerOf(*trained, "b").implementation->name, "packed");
}

TEST_F(MemoryFormats, AConvolutionFusesABias) {
  const auto plan = PlanText(SquareInput(16, 64) + PaddedConv("a", "x", 24, "bias_term: false") +
                                 LayerOnBlobs("Bias", "s", "a") + LayerOnBlobs("ReLU", "r", "s") +
                                 PaddedConv("b", "r", 16),
                             TEST, {.backward = false});
  EXPECT_EQ(LayerOf(*plan, "a").fusion.followers.size(), 2U) << DescribePlan(*plan);
}

TEST_F(MemoryFormats, WhatUsersSeeIsPlain) {
  const auto plan =
      PlanText(SquareInput(16, 16) + PaddedConv("a", "x", 16) + PaddedConv("b", "a", 16));
  for (const std::string& blob : {std::string("x"), std::string("b")}) {
    const PlannedValue& value = plan->values[static_cast<size_t>(plan->FindValue(blob))];
    EXPECT_EQ(value.spec.format, MemoryFormat{}) << blob;
  }
  EXPECT_EQ(plan->outputs, std::vector<int>{plan->FindValue("b")});
}

TEST_F(MemoryFormats, ABlobThatOnlyCarriesALossWeightIsNoOutput) {
  std::string weighted = PaddedConv("a", "x", 32);
  weighted.insert(weighted.rfind('}'), "loss_weight: 1 ");
  const auto plan = PlanText(SquareInput(32, 32) + weighted + PaddedConv("b", "a", 32));
  EXPECT_EQ(plan->outputs, std::vector<int>{plan->FindValue("b")});
}

TEST_F(MemoryFormats, NativeImplementationReplacesOneDnnsReferenceCode) {
  const auto plan = PlanText(SquareInput(3, 64) + PaddedConv("fcn", "x", 64, "pad: 100") +
                             PaddedConv("b", "fcn", 64));
  EXPECT_EQ(LayerOf(*plan, "fcn").implementation->name, "packed");
  EXPECT_EQ(LayerOf(*plan, "b").implementation->output_format, MemoryFormat{Layout::kBlocked});
}

TEST_F(MemoryFormats, APlainNetIsLeftAlone) {
  const auto plan = PlanText(SquareInput(16, 16) + LayerOnBlobs("ReLU", "r", "x") +
                             LayerOnBlobs("LRN", "n", "r"));
  EXPECT_TRUE(NamesOf(*plan, "Reorder").empty());
}

TEST_F(MemoryFormats, NoLayoutIsBlockedInUnoptimizedOrDeterministicPlans) {
  const std::string text =
      SquareInput(16, 16) + PaddedConv("a", "x", 16) + PaddedConv("b", "a", 16);
  for (const PlanOptions& options :
       {PlanOptions{.optimize = false}, PlanOptions{.deterministic = true}}) {
    const auto plan = PlanText(text, TRAIN, options);
    EXPECT_TRUE(NamesOf(*plan, "Reorder").empty());
    EXPECT_EQ(LayerOf(*plan, "b").implementation->input_format, MemoryFormat{});
  }
}

TEST_F(MemoryFormats, ALayerThatNeedsOtherChannelsGetsAReorder) {
  // Two and a half blocks: a convolution takes them, LRN does not.
  const int part = static_cast<int>(5 * ChannelBlock() / 2);
  const auto plan =
      PlanText(SquareInput(16, 64) + PaddedConv("a", "x", part) + PaddedConv("b", "a", part) +
               LayerOnBlobs("LRN", "n", "b") + PaddedConv("c", "n", 16) + PaddedConv("d", "c", 16));
  EXPECT_EQ(LayerOf(*plan, "n").implementation->name, "native");
  const std::vector<std::string> reorders = NamesOf(*plan, "Reorder");
  EXPECT_NE(std::ranges::find(reorders, "b" + to_plain_), reorders.end());
}

TEST_F(MemoryFormats, AConvolutionFusesWhatFollowsIt) {
  const std::string text = SquareInput(16, 64) + PaddedConv("a", "x", 16, "bias_term: false") +
                           LayerOnBlobs("BatchNorm", "n", "a") +
                           LayerOnBlobs("Scale", "s", "n", "scale_param { bias_term: true }") +
                           LayerOnBlobs("ReLU", "r", "s") + PaddedConv("b", "r", 16) +
                           LayerOnBlobs("BatchNorm", "m", "b") +
                           LayerOnBlobs("Eltwise", "e", "r m") + LayerOnBlobs("ReLU", "q", "e") +
                           PaddedConv("c", "q", 16);
  const auto plan = PlanText(text, TEST, {.backward = false});
  const auto fused = [&](const std::string& by) {
    std::vector<std::string> names;
    for (int n : LayerOf(*plan, by).fusion.followers) {
      names.push_back(plan->layers[size_t(n)].name());
    }
    return names;
  };
  EXPECT_EQ(fused("a"), (std::vector<std::string>{"n", "s", "r"}));
  EXPECT_EQ(fused("b"), (std::vector<std::string>{"m", "e", "q"}));
  EXPECT_EQ(LayerOf(*plan, "b").fusion.extra_inputs, 1U);
  EXPECT_NE(DescribePlan(*plan).find("in a"), std::string::npos);
  // Statistics of the batch are not known before it, and backward needs what was fused.
  EXPECT_TRUE(LayerOf(*PlanText(text, TRAIN, {.backward = false}), "a").fusion.followers.empty());
  const std::string loss = LayerOnBlobs("Reduction", "loss", "c", "loss_weight: 1");
  EXPECT_TRUE(LayerOf(*PlanText(text + loss, TEST), "a").fusion.followers.empty());
}

TEST_F(MemoryFormats, InputsOfFusedLayersMayBeOverwritten) {
  // The sum needs none of its inputs again, so "s", which "n" writes, may be overwritten.
  const std::string text = SquareInput(16, 64) + PaddedConv("a", "x", 16) +
                           LayerOnBlobs("BatchNorm", "n", "a") + LayerOnBlobs("Scale", "s", "n") +
                           LayerOnBlobs("Eltwise", "e", "s x") + PaddedConv("b", "e", 16) +
                           LayerOnBlobs("Reduction", "l", "b", "loss_weight: 1");
  const auto plan = PlanText(text, TRAIN);
  ASSERT_EQ(LayerOf(*plan, "n").fusion.followers.size(), 1U);
  EXPECT_TRUE(LayerOf(*plan, "e").in_place);
}

TEST_F(MemoryFormats, WhatOthersReadIsNotFused) {
  const auto plan =
      PlanText(SquareInput(16, 64) + PaddedConv("a", "x", 16) +
                   LayerOnBlobs("BatchNorm", "n", "a") + PaddedConv("b", "n", 16) +
                   LayerOnBlobs("Eltwise", "e", "n b", "eltwise_param { coeff: 1 coeff: -1 }"),
               TEST, {.backward = false});
  EXPECT_EQ(LayerOf(*plan, "a").fusion.followers.size(), 1U);  // n, whose output has two readers
  EXPECT_TRUE(LayerOf(*plan, "b").fusion.followers.empty());   // a difference is no sum
}

class BFloat16Formats : public MemoryFormats {
 protected:
  void SetUp() override {
    MemoryFormats::SetUp();
    if (!HasBFloat16()) GTEST_SKIP() << "this processor does not multiply bfloat16";
  }
  // Plans for a processor on which bfloat16 gains: that of this machine need not.
  static std::shared_ptr<const Plan> PlanText(const std::string& text, Phase phase = TRAIN,
                                              PlanOptions options = {}) {
    options.processor.bfloat16_speedup = 2;
    if (!options.processor.channels_last_speedup) options.processor.channels_last_speedup = 0;
    return test::PlanText(text, phase, std::move(options));
  }
  static int StoredAsHalves(const Plan& plan) {
    return static_cast<int>(std::ranges::count_if(
        plan.values, [](const PlannedValue& v) { return v.spec.format.type == DType::kBF16; }));
  }
  // 1 x 1 filters, which no algorithm in single precision makes up for.
  static std::string OneByOne(const std::string& name, const std::string& bottom,
                              const std::string& more = "") {
    return StrCat("layer { name: '", name, "' type: 'Convolution' bottom: '", bottom, "' top: '",
                  name, "' convolution_param { kernel_size: 1 num_output: 256 } ", more, " }\n");
  }
  // Returns layers of several types, the last of which is the concatenation "j".
  static std::string LayersToConcat() {
    return SquareInput(3, 64) + PaddedConv("a", "x", 256) + LayerOnBlobs("ReLU", "r", "a") +
           LayerOnBlobs("Pooling", "p", "r", "pooling_param { kernel_size: 2 stride: 2 }") +
           OneByOne("b", "p") + LayerOnBlobs("BatchNorm", "m", "b") +
           LayerOnBlobs("Eltwise", "e", "m p") + LayerOnBlobs("Concat", "j", "e p");
  }
};

TEST_F(BFloat16Formats, AreKeptFromLayerToLayer) {
  const std::string text = LayersToConcat() + LayerOnBlobs("LRN", "n", "j") + OneByOne("c", "n") +
                           LayerOnBlobs("Softmax", "s", "c");
  for (const PlanOptions& options :
       {PlanOptions{.precision = BF16}, PlanOptions{.backward = false, .precision = BF16}}) {
    const auto plan = PlanText(text, TRAIN, options);
    EXPECT_EQ(LayerOf(*plan, "a").implementation->name, "onednn bf16, plain input")
        << DescribePlan(*plan);
    EXPECT_EQ(LayerOf(*plan, "p").implementation->name, "onednn bf16");
    EXPECT_EQ(LayerOf(*plan, "n").implementation->name, "blocked bf16");
    EXPECT_EQ(LayerOf(*plan, "c").implementation->name, "onednn bf16");
    EXPECT_EQ(NamesOf(*plan, "Reorder"), std::vector<std::string>{"c_to_NCHW"});
  }
}

// As on processors with AMX, whose tiles oneDNN uses on this layout only.
TEST_F(BFloat16Formats, AreChannelsLastWhereThatIsClearlyFaster) {
  const std::string text =
      LayersToConcat() + OneByOne("c", "j") + LayerOnBlobs("Softmax", "s", "c");
  PlanOptions options{.backward = false, .precision = BF16};
  options.processor.channels_last_speedup = 16;
  const auto plan = PlanText(text, TRAIN, options);
  for (const char* convolution : {"a", "b", "c"}) {
    EXPECT_EQ(LayerOf(*plan, convolution).implementation->name, "onednn NHWC bf16")
        << DescribePlan(*plan);
  }
  for (const char* other : {"p", "m", "j"}) {
    EXPECT_EQ(LayerOf(*plan, other).implementation->name, "NHWC bf16");
  }
  EXPECT_EQ(NamesOf(*plan, "Reorder"), (std::vector<std::string>{"x_to_NHWC_bf16", "c_to_NCHW"}));
}

// Blocks of 16 would hold 24 channels with a third of zeros.
TEST_F(BFloat16Formats, AreNeverChannelsLastWhereThatGainsNothing) {
  std::string text = "precision: BF16 " + SquareInput(24, 112);
  std::string bottom = "x";
  for (int i = 0; i < 4; ++i) {
    const std::string s = StrCat("s", i), c = StrCat("c", i);
    text += LayerOnBlobs("Sigmoid", s, bottom) +
            LayerOnBlobs("Convolution", c, s,
                         "convolution_param { kernel_size: 3 pad: 1 num_output: 24 group: 24 }");
    bottom = c;
  }
  for (const bool backward : {false, true}) {
    const auto plan = PlanText(text, TRAIN, {.backward = backward});
    EXPECT_TRUE(std::ranges::none_of(plan->values, [](const PlannedValue& v) {
      return v.spec.format.layout == Layout::kNHWC;
    })) << DescribePlan(*plan);
  }
}

// oneDNN would add gradients of windows that overlap in bfloat16.
TEST_F(BFloat16Formats, PoolingThatLearnsIsOurOwn) {
  const std::string text =
      SquareInput(3, 64) + OneByOne("a", "x") +
      LayerOnBlobs("Pooling", "p", "a", "pooling_param { kernel_size: 3 stride: 1 }") +
      OneByOne("b", "p");
  const auto implementation = [&](const std::string& loss) {
    return LayerOf(*PlanText(text + loss, TRAIN, {.precision = BF16}), "p").implementation->name;
  };
  EXPECT_EQ(implementation(""), "onednn bf16");
  EXPECT_EQ(implementation(LayerOnBlobs("Reduction", "s", "b", "loss_weight: 1")), "blocked bf16");
}

TEST_F(BFloat16Formats, HalveTheMemoryOfValues) {
  const std::string text = SquareInput(16, 64) + OneByOne("a", "x") + OneByOne("b", "a");
  const auto single = PlanText(text, TEST, {.backward = false});
  const auto half = PlanText(text, TEST, {.backward = false, .precision = BF16});
  const auto bytes = [](const Plan& plan) {
    return plan.values[static_cast<size_t>(plan.FindFirstValue("a"))].data.bytes;
  };
  EXPECT_EQ(bytes(*single), 2 * bytes(*half));
}

TEST_F(BFloat16Formats, AreForNetsAndLayersThatAskForThem) {
  const std::string text = SquareInput(16, 64) + OneByOne("a", "x") + OneByOne("b", "a");
  const auto single = PlanText(text);
  EXPECT_EQ(StoredAsHalves(*single), 0);
  const auto& skipped = LayerOf(*single, "a").skipped;
  const auto implementation =
      std::ranges::find(skipped, "onednn bf16", &SkippedImplementation::implementation);
  if (implementation != skipped.end()) {
    EXPECT_EQ(implementation->reason, "is for precision: BF16");
  }
  EXPECT_GT(StoredAsHalves(*PlanText("precision: BF16 " + text)), 0);
  EXPECT_EQ(StoredAsHalves(*PlanText("precision: FP32 " + text, TRAIN, {.precision = BF16})), 0);
  const auto one = PlanText(SquareInput(16, 64) + OneByOne("a", "x") +
                            OneByOne("b", "a", "precision: BF16") + OneByOne("c", "b"));
  EXPECT_EQ(LayerOf(*one, "b").implementation->name, "onednn bf16");
  EXPECT_EQ(LayerOf(*one, "a").implementation->name, "onednn");
  EXPECT_EQ(LayerOf(*one, "c").implementation->name, "onednn");
  EXPECT_EQ(StoredAsHalves(*PlanText("precision: BF16 " + text, TRAIN, {.deterministic = true})),
            0);
  EXPECT_EQ(StoredAsHalves(*PlanText("precision: BF16 " + text, TRAIN, {.optimize = false})), 0);
}

TEST_F(BFloat16Formats, AreNotUsedWhereTheProcessorGainsNothing) {
  const std::string text =
      "precision: BF16 " + SquareInput(16, 64) + OneByOne("a", "x") + OneByOne("b", "a");
  PlanOptions options{.backward = false};
  options.processor.channels_last_speedup = 0;
  options.processor.bfloat16_speedup = 0.25;
  EXPECT_EQ(StoredAsHalves(*test::PlanText(text, TEST, options)), 0);
  options.processor.bfloat16_speedup = 4;
  EXPECT_GT(StoredAsHalves(*test::PlanText(text, TEST, options)), 0);
}

TEST_F(BFloat16Formats, AreNotUsedWhereReordersCostMoreThanTheySave) {
  const auto plan =
      PlanText("precision: BF16 " + SquareInput(16, 8) + LayerOnBlobs("TanH", "t", "x") +
               LayerOnBlobs("Pooling", "p", "t", "pooling_param { kernel_size: 2 }") +
               LayerOnBlobs("Sigmoid", "s", "p"));
  EXPECT_EQ(StoredAsHalves(*plan), 0);
  EXPECT_TRUE(NamesOf(*plan, "Reorder").empty());
}

// A processor without bfloat16 gains nothing either.
TEST(UnusedBFloat16, IsAWarningWithItsPlaceAndReason) {
  const auto warnings = [](const std::string& text) {
    const NetFile file = ParseNet(text, "net.prototxt");
    PlanOptions options{.backward = false};
    options.processor.bfloat16_speedup = 0.25;
    options.processor.channels_last_speedup = 0;
    NetState state;
    state.set_phase(TEST);
    std::vector<Problem> found;
    MakePlan(file.net, file.source, state, test::TestRegistry(), options, &found);
    return found;
  };
  const std::string layers =
      SquareInput(16, 64) +
      LayerOnBlobs("Convolution", "a", "x", "convolution_param { num_output: 16 kernel_size: 1 }") +
      LayerOnBlobs("ReLU", "r", "a");
  const std::vector<Problem> found = warnings("precision: BF16\n" + layers);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].message.find("precision BF16 changes nothing: no layer computes in bfloat16"),
            std::string::npos);
  EXPECT_NE(found[0].message.find("(a: onednn bf16 "), std::string::npos) << found[0].message;
  EXPECT_EQ(found[0].where.line, 1);
  EXPECT_TRUE(warnings(layers).empty());
}

TEST(PrecisionOfGpus, IsRefusedWithItsPlace) {
  const std::string text = SquareInput(16, 8) + LayerOnBlobs("ReLU", "r", "x", "precision: FP16");
  EXPECT_NE(test::PlanError("precision: FP16\n" + SquareInput(16, 8)).find("net.prototxt:1"),
            std::string::npos);
  EXPECT_NE(test::PlanError(text).find("net.prototxt:2"), std::string::npos);
  EXPECT_NE(test::PlanError(text).find("precision FP16 is for a GPU"), std::string::npos);
}

TEST(Tf32OnTheCpu, IsSinglePrecisionAndSaysSoOnce) {
  const std::string layers = SquareInput(16, 8) +
                             LayerOnBlobs("ReLU", "r", "x", "precision: TF32") +
                             LayerOnBlobs("TanH", "t", "r", "precision: TF32");
  const std::string of_layer = test::PlanWarnings(layers);
  EXPECT_NE(of_layer.find("precision TF32 is for a GPU; the CPU computes in FP32"),
            std::string::npos);
  EXPECT_NE(of_layer.find("net.prototxt:2"), std::string::npos);
  EXPECT_EQ(of_layer.find("TF32"), of_layer.rfind("TF32"));
  EXPECT_NE(test::PlanWarnings("precision: TF32\n" + SquareInput(16, 8)).find("net.prototxt:1"),
            std::string::npos);
  EXPECT_EQ(test::PlanWarnings("precision: BF16\n" + SquareInput(16, 8)).find("precision"),
            std::string::npos);
}

}  // namespace
}  // namespace crema
