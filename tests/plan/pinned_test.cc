// Layers whose implementation the options name.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/strings.h"
#include "crema.pb.h"
#include "support/net.h"

namespace crema {
namespace {

using test::PlanText;

constexpr const char* kPinnedNet = R"(
layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 dim: 16 dim: 16 } } }
layer { name: 'a' type: 'Convolution' bottom: 'x' top: 'a' convolution_param { num_output: 32
  kernel_size: 3 weight_filler { type: 'xavier' } } }
layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'a' }
layer { name: 'b' type: 'Convolution' bottom: 'a' top: 'b' convolution_param { num_output: 32
  kernel_size: 3 weight_filler { type: 'xavier' } } }
)";

const PlannedLayer* Find(const Plan& plan, const std::string& name) {
  const auto found = std::ranges::find(plan.layers, name, &PlannedLayer::name);
  return found == plan.layers.end() ? nullptr : &*found;
}

std::string PinnedError(const PlanOptions& options) {
  try {
    PlanText(kPinnedNet, TEST, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Each one computes the layer, or the error has its own reason.
TEST(Pinned, LayersAreComputedByNothingElse) {
  int planned = 0;
  for (const char* layer : {"a", "b"}) {
    for (const ImplementationPtr& implementation :
         test::TestRegistry().Find("Convolution")->implementations) {
      if (implementation->device != DeviceType::kCpu) continue;
      const PlanOptions options{.backward = false, .pinned = {{layer, implementation->name}}};
      const std::string error = PinnedError(options);
      if (!error.empty()) {
        EXPECT_NE(error.find(StrCat("the implementation '", implementation->name,
                                    "' that is asked for cannot compute this layer: ")),
                  std::string::npos)
            << error;
        continue;
      }
      EXPECT_EQ(Find(*PlanText(kPinnedNet, TEST, options), layer)->implementation->name,
                implementation->name);
      ++planned;
    }
  }
  EXPECT_GE(planned, 2);  // native, at least
}

TEST(Pinned, LayersAreNotFused) {
  const PlanOptions options{.backward = false, .pinned = {{"r", "native"}}};
  const auto plan = PlanText(kPinnedNet, TEST, options);
  ASSERT_NE(Find(*plan, "r"), nullptr);
  EXPECT_EQ(Find(*plan, "r")->fusion.leader, -1);
  EXPECT_EQ(Find(*plan, "r")->implementation->name, kNativeImplementation);
}

TEST(Pinned, NamesThatAreNotThereAreErrors) {
  EXPECT_NE(PinnedError({.pinned = {{"c", "native"}}}).find("the net has no layer 'c'"),
            std::string::npos);
  EXPECT_NE(PinnedError({.pinned = {{"a", "native2"}}}).find("have no implementation 'native2'"),
            std::string::npos);
}

}  // namespace
}  // namespace crema
