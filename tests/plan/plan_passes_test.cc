// Plans without one pass: its changes are missing, and those of the others are made.
#include "plan/plan_passes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/memory_format.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "plan/plan_parts.h"
#include "support/net.h"

namespace crema {
namespace {

using test::HasBlockedConvolution;

constexpr const char* kPassesNet = R"(
layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 32 dim: 24 dim: 24 } } }
layer { name: 'a' type: 'Convolution' bottom: 'x' top: 'a' convolution_param { num_output: 32
  kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }
layer { name: 'n' type: 'BatchNorm' bottom: 'a' top: 'n' }
layer { name: 'b' type: 'Convolution' bottom: 'n' top: 'b' convolution_param { num_output: 32
  kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }
layer { name: 'r' type: 'ReLU' bottom: 'b' top: 'r' }
layer { name: 's' type: 'Sigmoid' bottom: 'r' top: 's' }
layer { name: 'c' type: 'Convolution' bottom: 's' top: 'c' convolution_param { num_output: 16
  kernel_size: 1 weight_filler { type: 'xavier' } } }
layer { name: 'd' type: 'Convolution' bottom: 's' top: 'd' convolution_param { num_output: 16
  kernel_size: 1 weight_filler { type: 'xavier' } } }
layer { name: 'e' type: 'Eltwise' bottom: 'c' bottom: 'd' top: 'e' eltwise_param { operation: MAX } }
layer { name: 'f' type: 'Convolution' bottom: 'e' top: 'f' convolution_param { num_output: 32
  kernel_size: 3 weight_filler { type: 'xavier' } } }
layer { name: 'p' type: 'Pooling' bottom: 's' top: 'p' pooling_param { kernel_size: 2 stride: 2 } }
layer { name: 'g' type: 'Convolution' bottom: 'f' top: 'g' convolution_param { num_output: 16
  kernel_size: 1 stride: 2 weight_filler { type: 'xavier' } } }
)";

struct Facts {
  bool has_relu = false;  // computed by itself
  bool strides = false;   // 'f' has that of 'g'
  bool blocked = false;
  bool fused = false;
  bool shares = false;
  bool fast_implementations = false;
  bool operator==(const Facts&) const = default;
};

Facts FactsOf(const std::string& passes) {
  const auto plan =
      test::PlanText(kPassesNet, TEST, {.backward = false, .passes = ParsePasses(passes)});
  Facts facts;
  for (const PlannedLayer& layer : plan->layers) {
    facts.has_relu = facts.has_relu || (layer.type->name == "ReLU" && layer.fusion.leader < 0);
    facts.strides = facts.strides || (layer.name() == "f" &&
                                      layer.layer->param().convolution_param().stride_size() > 0);
    facts.fused = facts.fused || layer.fusion.leader >= 0;
    facts.shares = facts.shares || layer.in_place;
    // Reorders have no native implementation.
    facts.fast_implementations = facts.fast_implementations ||
                                 (layer.implementation != nullptr && layer.type->name != "Input" &&
                                  layer.implementation->name != kNativeImplementation);
  }
  facts.shares = facts.shares || plan->arena_bytes < plan->unshared_bytes;
  facts.blocked = std::ranges::any_of(
      plan->values, [](const PlannedValue& value) { return value.spec.format != MemoryFormat{}; });
  return facts;
}

class Passes : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasBlockedConvolution())
      GTEST_SKIP() << "no implementation of this build takes blocked blobs";
    all_ = FactsOf("all");
    ASSERT_EQ(all_, (Facts{.strides = true,
                           .blocked = true,
                           .fused = true,
                           .shares = true,
                           .fast_implementations = true}));
  }
  Facts all_;
};

TEST_F(Passes, WithoutMoveStridesTheyStayWhereTheyAre) {
  all_.strides = false;
  EXPECT_EQ(FactsOf("-move_strides"), all_);
}

TEST_F(Passes, WithoutMemoryFormatsAllIsPlain) {
  const Facts facts = FactsOf("-memory_formats");
  EXPECT_FALSE(facts.blocked);
  EXPECT_TRUE(facts.fast_implementations);
  EXPECT_TRUE(facts.shares);
}

TEST_F(Passes, WithoutFuseEachLayerWorks) {
  all_.fused = false;
  all_.has_relu = true;
  EXPECT_EQ(FactsOf("-fuse"), all_);
}

TEST_F(Passes, WithoutShareMemoryEachBlobHasItsOwn) {
  all_.shares = false;
  EXPECT_EQ(FactsOf("-share_memory"), all_);
}

TEST_F(Passes, WithoutOptimizedImplementationsAllIsNative) {
  const Facts facts = FactsOf("-optimized_implementations");
  EXPECT_FALSE(facts.fast_implementations);
  EXPECT_FALSE(facts.blocked);
  EXPECT_FALSE(facts.has_relu);  // native convolutions fuse it
  EXPECT_TRUE(facts.shares);
}

TEST_F(Passes, NoneDisablesAllPasses) { EXPECT_EQ(FactsOf("none"), (Facts{.has_relu = true})); }

TEST_F(Passes, EachPassHasItsEffectAlone) {
  EXPECT_FALSE(FactsOf("none,+fuse").has_relu);
  EXPECT_TRUE(FactsOf("none,+move_strides").strides);
  EXPECT_TRUE(FactsOf("none,+share_memory").shares);
  EXPECT_TRUE(FactsOf("none,+optimized_implementations").fast_implementations);
  EXPECT_TRUE(FactsOf("none,+fuse").fused);
  // Native implementations are plain.
  EXPECT_TRUE(FactsOf("none,+optimized_implementations,+memory_formats").blocked);
}

TEST(ParsePasses, StartsFromAllAndGoesInOrder) {
  EXPECT_TRUE(ParsePasses("").fuse);
  EXPECT_TRUE(ParsePasses("all").share_memory);
  EXPECT_FALSE(ParsePasses("-fuse").fuse);
  EXPECT_TRUE(ParsePasses("-fuse").memory_formats);
  const PlanPasses one = ParsePasses("none,+fuse");
  EXPECT_TRUE(one.fuse);
  EXPECT_FALSE(one.memory_formats || one.share_memory || one.optimized_implementations ||
               one.move_strides);
  EXPECT_TRUE(ParsePasses("-fuse,all").fuse);
}

TEST(ParsePasses, SaysWhichNamesThereAre) {
  std::string names;
  for (const NamedPass& pass : kNamedPasses) names += StrCat(" ", pass.name);
  for (const std::string wrong : {"-absrob", "fuse", "-", "all,", "+move-strides"}) {
    try {
      ParsePasses(wrong);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.problems().front().code, ErrorCode::kInvalidArgument);
      const std::string text = error.what();
      EXPECT_NE(text.find("; passes are:" + names), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace crema
