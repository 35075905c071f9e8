// Compares int8 implementations with the native methods in double precision on the same bytes.
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/memory_format.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "math/int8_weights.h"
#include "quantization/int8_implementation.h"
#include "support/net.h"

namespace crema {
namespace {

using test::Difference;
using test::Int8Case;
using test::RunInt8Implementation;

bool HasImplementation(const std::string& type, const std::string& name) {
  const auto& implementations = test::TestRegistry().Find(type)->implementations;
  return std::ranges::find(implementations, name, &Implementation::name) != implementations.end();
}

class Int8Implementations : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasImplementation("Convolution", "int8")) GTEST_SKIP() << "this build has no oneDNN";
    if (ChannelBlock() == 0) GTEST_SKIP() << "this processor has no implementations on bytes";
  }
};

std::string ConvFields(const std::string& fields) {
  return StrCat("convolution_param { ", fields, " }");
}

void ExpectAgrees(const Int8Case& c, uint64_t seed) {
  const test::Int8Outcome outcome = RunInt8Implementation(c, seed);
  ASSERT_EQ(outcome.refused, "") << c.fields;
  EXPECT_EQ(Difference(outcome), "")
      << c.implementation << ": " << c.fields << ", " << ToString(c.inputs[0]);
}

// Draws any valid geometry from the seed.
Int8Case DrawConvolution(uint64_t seed) {
  const RandomStream random(seed, 1);
  uint64_t next = 0;
  const auto draw = [&](uint32_t low, uint32_t high) {
    return int64_t{low + random.Below(next++, high - low + 1)};
  };
  const int64_t groups = draw(0, 3) == 0 ? draw(2, 5) : 1;
  const bool depthwise = draw(0, 4) == 0 && ChannelBlock() != 8;  // AVX2 refuses them
  const int64_t in = depthwise ? draw(1, 40) : groups * draw(1, 20);
  const int64_t out = depthwise    ? in
                      : groups > 1 ? groups * draw(1, 2) * ChannelBlock()
                                   : draw(1, 40);
  const int64_t kh = draw(1, 4), kw = draw(1, 4), dilation = draw(0, 3) == 0 ? 2 : 1;
  const int64_t h = draw(1, 9) + (kh - 1) * dilation, w = draw(1, 9) + (kw - 1) * dilation;
  Int8Case c;
  c.type = "Convolution";
  c.fields = ConvFields(StrCat("num_output: ", out, " group: ", depthwise ? in : groups,
                               " kernel_h: ", kh, " kernel_w: ", kw, " stride_h: ", draw(1, 3),
                               " stride_w: ", draw(1, 3), " pad_h: ", draw(0, kh - 1),
                               " pad_w: ", draw(0, kw - 1), " dilation: ", dilation,
                               " bias_term: ", draw(0, 1) == 0 ? "false" : "true"));
  const int64_t relu = draw(0, 4);
  if (relu == 0) c.fields += " fused_relu_param {}";
  if (relu == 1) c.fields += " fused_relu_param { negative_slope: 0.25 }";
  c.inputs = {{draw(1, 3), in, h, w}};
  c.signed_in = draw(0, 1) == 0;
  c.signed_out = draw(0, 1) == 0;
  c.out_max = static_cast<double>(draw(1, 30));
  c.threads = static_cast<int>(draw(1, 3));
  c.fixed = draw(0, 1) == 0;
  if (draw(0, 3) == 0) c.zero_output = 0;
  if (draw(0, 3) == 0) c.equal_output = static_cast<int>(out - 1);
  return c;
}

TEST_F(Int8Implementations, ConvolutionsOfAnyGeometryAgree) {
  const std::vector<std::string> implementations = {"int8", "int8, plain output",
                                                    "int8, blocked output"};
  std::map<std::string, int> ran;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Int8Case c = DrawConvolution(seed);
    c.implementation = implementations[seed % implementations.size()];
    if (!RunInt8Implementation(c, seed).refused.empty()) {
      // oneDNN uses its reference implementation for that, which must work, too.
      c.implementation = c.implementation.insert(4, ", reference");
    }
    ++ran[c.implementation];
    ExpectAgrees(c, seed);
    if (HasFailure()) break;
  }
  for (const std::string& implementation : implementations)
    EXPECT_GT(ran[implementation], 50) << implementation;
}

TEST_F(Int8Implementations, LargestBytesAndWeightsDoNotOverflow) {
  for (const bool is_signed : {false, true}) {
    for (const int64_t channels : {3, 64, 512}) {
      Int8Case c{.type = "Convolution",
                 .fields = ConvFields("num_output: 32 kernel_size: 3 pad: 1"),
                 .inputs = {{1, channels, 6, 6}},
                 .signed_in = is_signed,
                 .out_max = 1e4,
                 .extreme = true};
      ExpectAgrees(c, 1);
      c.implementation = "int8, plain output";
      ExpectAgrees(c, 1);
    }
  }
}

TEST_F(Int8Implementations, BeyondTheRangeIsTheNearestByte) {
  Int8Case c{.type = "Convolution",
             .fields = ConvFields("num_output: 16 kernel_size: 1"),
             .inputs = {{1, 64, 5, 5}},
             .out_max = 0.5};
  const test::Int8Outcome outcome = RunInt8Implementation(c, 3);
  EXPECT_EQ(Difference(outcome), "");
  EXPECT_EQ(*std::ranges::max_element(outcome.made), 127 * outcome.step);
  EXPECT_EQ(*std::ranges::min_element(outcome.made), -128 * outcome.step);
}

LayerParameter Follower(const std::string& text) {
  LayerParameter param;
  CREMA_CHECK(google::protobuf::TextFormat::ParseFromString(text, &param));
  param.set_phase(TEST);
  return param;
}

TEST_F(Int8Implementations, AConvolutionAddsBytesOfAnotherRange) {
  const char* const added = "bottom { max: 17 }";
  for (const bool first : {true, false}) {
    const std::string other = "bottom { max: 3 }";
    Int8Case c{.type = "Convolution",
               .fields = ConvFields("num_output: 20 kernel_size: 3 pad: 1"),
               .inputs = {{2, 12, 7, 5}},
               .signed_in = true};
    c.fused.push_back(Follower(StrCat("name: 'sum' type: 'Eltwise' top: 'sum' bottom: '",
                                      first ? "z" : "y", "' bottom: '", first ? "y" : "z",
                                      "' precision: INT8 int8 { ", first ? added : other.c_str(),
                                      " ", first ? other.c_str() : added, " top { max: 20 } }")));
    ExpectAgrees(c, 11);
    c.fused.push_back(
        Follower("name: 'r' type: 'ReLU' top: 'r' bottom: 'sum' precision: INT8 int8 { bottom { "
                 "max: 20 } top { max: 12 non_negative: true } }"));
    ExpectAgrees(c, 12);
  }
}

TEST_F(Int8Implementations, FactorsOfChannelsGoIntoTheWeights) {
  for (const bool bias : {true, false}) {
    Int8Case c{.type = "Convolution",
               .fields = ConvFields(
                   StrCat("num_output: 36 kernel_size: 3 bias_term: ", bias ? "true" : "false")),
               .inputs = {{2, 12, 7, 5}}};
    c.fused.push_back(
        Follower("name: 's' type: 'Scale' top: 's' bottom: 'y' precision: INT8 int8 { bottom { "
                 "max: 20 } top { max: 30 } }"));
    ExpectAgrees(c, 21);
    c.implementation = "int8, plain output";
    ExpectAgrees(c, 22);
  }
}

TEST_F(Int8Implementations, InnerProductsAgree) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const RandomStream random(seed, 2);
    const int64_t channels = 1 + random.Below(0, 70), side = 1 + random.Below(1, 6);
    const int64_t outputs = 4096 / (channels * side * side) + 1 + random.Below(2, 50);
    Int8Case c{.type = "InnerProduct",
               .fields = StrCat("inner_product_param { num_output: ", outputs,
                                seed % 3 == 0 ? " transpose: true" : "",
                                seed % 4 == 0 ? " bias_term: false" : "", " }",
                                seed % 5 == 0 ? " fused_relu_param {}" : ""),
               .inputs = {{1 + random.Below(3, 4), channels, side, side}},
               .signed_in = seed % 2 == 0,
               .zero_output = static_cast<int>(seed % 7)};
    c.implementation = seed % 2 == 0 ? "int8, int8 input" : "int8";
    c.fixed = seed % 3 != 1;
    ExpectAgrees(c, seed);
    if (HasFailure()) break;
  }
}

TEST_F(Int8Implementations, PoolingAgrees) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    const RandomStream random(seed, 3);
    const bool mean = seed % 2 == 0, whole = seed % 6 == 0;
    const int64_t kernel = 1 + random.Below(0, 4);
    Int8Case c{.type = "Pooling",
               .fields = StrCat("pooling_param { pool: ", mean ? "AVE" : "MAX", " ",
                                whole ? std::string("global_pooling: true")
                                      : StrCat("kernel_size: ", kernel, " stride: ",
                                               1 + random.Below(1, static_cast<uint32_t>(kernel)),
                                               " pad: ", kernel / 2 > 0 ? random.Below(2, 2) : 0U),
                                " }"),
               .inputs = {{1 + random.Below(3, 3), 1 + random.Below(4, 150),
                           kernel + random.Below(5, 8), kernel + random.Below(6, 8)}},
               .signed_in = seed % 3 == 0};
    c.signed_out = c.signed_in;
    c.out_max = c.in_max;
    if (mean && seed % 4 == 0) c.implementation = "int8, plain output";
    ExpectAgrees(c, seed);
    if (HasFailure()) break;
  }
}

TEST_F(Int8Implementations, ChannelsAreJoined) {
  Int8Case c{.type = "Concat",
             .fields = "",
             .inputs = {{3, 5, 4, 3}, {3, 16, 4, 3}, {3, 1, 4, 3}},
             .signed_in = true,
             .out_max = 2};
  ExpectAgrees(c, 5);
  c.out_max = 3;
  EXPECT_NE(RunInt8Implementation(c, 5).refused.find("one range"), std::string::npos);
}

TEST_F(Int8Implementations, LayersThatAreNotFusedUseFloats) {
  const std::vector<Shape> one = {{2, 5, 4, 3}}, two = {{2, 5, 4, 3}, {2, 5, 4, 3}};
  for (const auto& [type, inputs] : std::vector<std::pair<std::string, std::vector<Shape>>>{
           {"ReLU", one}, {"Scale", one}, {"Eltwise", two}}) {
    // Scale's factors are not rounded.
    Int8Case c{.type = type,
               .fields = "",
               .inputs = inputs,
               .implementation = "int8 by floats",
               .signed_in = true,
               .out_max = 4};
    if (type == "Scale") {
      EXPECT_EQ(RunInt8Implementation(c, 7).refused, "");
      continue;
    }
    ExpectAgrees(c, 7);
  }
}

TEST_F(Int8Implementations, SayWhyTheyDoNot) {
  Int8Case c{.type = "Convolution",
             .fields = ConvFields("num_output: 4 kernel_size: 1 axis: 2"),
             .inputs = {{1, 2, 8, 8}}};
  EXPECT_NE(RunInt8Implementation(c, 1).refused.find("axis 1"), std::string::npos);
  c.fields = ConvFields("num_output: 4 kernel_size: 1");
  c.inputs = {{1, 2, 8}};
  EXPECT_NE(RunInt8Implementation(c, 1).refused.find("N x C x H x W"), std::string::npos);
  c.inputs = {{1, 6, 8, 8}};
  c.fields = ConvFields("num_output: 69 group: 3 kernel_size: 1");
  EXPECT_NE(RunInt8Implementation(c, 1).refused.find("whole blocks"), std::string::npos);
  c.fields = ConvFields("num_output: 4 kernel_size: 1");
  c.inputs = {{1, 2, 8, 8}};
  c.in_max = 0;
  EXPECT_NE(RunInt8Implementation(c, 1).refused.find("calibration"), std::string::npos);
}

// The largest bytes times the largest weights must not exceed 2^31 - 1.
TEST_F(Int8Implementations, RefuseSumsThatMayOverflow) {
  const int64_t most = std::numeric_limits<int32_t>::max() / (255 * LargestInt8Weight());
  for (const std::string implementation : {"int8", "int8, int8 input"}) {
    Int8Case c{.type = "InnerProduct",
               .fields = "inner_product_param { num_output: 2 }",
               .inputs = {{1, most, 1, 1}},
               .implementation = implementation,
               .extreme = true};
    ExpectAgrees(c, 1);
    c.inputs = {{1, most + 1, 1, 1}};
    EXPECT_NE(RunInt8Implementation(c, 1).refused.find("may exceed 32 bits"), std::string::npos);
  }
  Int8Case c{.type = "Convolution",
             .fields = ConvFields("num_output: 16 kernel_size: 4"),
             .inputs = {{1, most / 16 + 1, 4, 4}}};
  EXPECT_NE(RunInt8Implementation(c, 1).refused.find("may exceed 32 bits"), std::string::npos);
  c.signed_in = true;  // 128 at most; without VNNI times weights up to 126
  EXPECT_EQ(RunInt8Implementation(c, 1).refused.empty(), LargestInt8Weight() == 127);
}

TEST_F(Int8Implementations, InnerProductsTakeNoImplementations) {
  for (const std::string implementation : {"int8", "int8, int8 input"}) {
    const Int8Case c{.type = "InnerProduct",
                     .fields = "inner_product_param { num_output: 64 }",
                     .inputs = {{0, 16, 4, 4}},
                     .implementation = implementation};
    const test::Int8Outcome outcome = RunInt8Implementation(c, 1);
    EXPECT_EQ(outcome.refused, "");
    EXPECT_TRUE(outcome.made.empty());
  }
}

}  // namespace
}  // namespace crema
