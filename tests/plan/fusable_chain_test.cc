// The choice of formats counts the layers that a convolution fuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/memory_format.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "support/net.h"

namespace crema {
namespace {

// MobileNet v2 in small: the third convolution has 24 channels, which fill blocks badly.
std::string Bottleneck(const std::string& followers) {
  return "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 24 dim: 56 "
         "dim: 56 } } }\n"
         "layer { name: 'a' type: 'Convolution' bottom: 'x' top: 'a' convolution_param { "
         "num_output: 144 kernel_size: 1 weight_filler { type: 'xavier' } } }\n" +
         followers;
}

constexpr const char* kFollowers = R"(
layer { name: 'n' type: 'BatchNorm' bottom: 'a' top: 'a' }
layer { name: 's' type: 'Scale' bottom: 'a' top: 'a' scale_param { bias_term: true } }
layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'a' }
)";

bool IsBlocked(const std::string& text, const PlanPasses& passes = {}) {
  const auto plan = test::PlanText(text, TEST, {.backward = false, .passes = passes});
  const auto a = std::ranges::find_if(
      plan->layers, [](const PlannedLayer& layer) { return layer.name() == "a"; });
  return a->implementation->output_format != MemoryFormat{};
}

TEST(FusableChain, FusedLayersPayForReorders) {
  const std::vector<ImplementationPtr>& implementations =
      test::TestRegistry().Find("Convolution")->implementations;
  if (ChannelBlock() != 16 || std::ranges::find(implementations, "onednn", &Implementation::name) ==
                                  implementations.end()) {
    GTEST_SKIP() << "needs AVX-512 and oneDNN";
  }
  EXPECT_FALSE(IsBlocked(Bottleneck("")));
  EXPECT_TRUE(IsBlocked(Bottleneck(kFollowers)));
  EXPECT_FALSE(IsBlocked(Bottleneck(kFollowers), {.fuse = false}));
}

}  // namespace
}  // namespace crema
