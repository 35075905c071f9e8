// Tests of implementations by cuDNN without a GPU: its stand-in computes.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "cudnn/fake_cudnn.h"
#include "math/cuda/cuda_device.h"
#include "plan/plan.h"
#include "support/net.h"

namespace crema::test {

class CudnnTest : public testing::Test {
 protected:
  void SetUp() override {
    // The stand-in computes at once on the CPU; GPUs run implementations_test with cuDNN itself.
    if (CudaDeviceCount() > 0) GTEST_SKIP() << "there is a GPU";
    FakeRules() = {};
    FakeCounts() = {};
    registry_ = std::make_unique<Registry>(BuiltinRegistry());
    stand_in_ = std::make_unique<CudnnStandIn>(FakeCudnn());
  }
  // Plans and sessions of a test are deleted by now.
  void TearDown() override {
    registry_.reset();
    EXPECT_EQ(FakeCounts().descriptors, 0);
    EXPECT_EQ(FakeCounts().handles, 0);
  }
  // Discards the answers of cuDNN: rules have changed.
  void AskAnew() { registry_ = std::make_unique<Registry>(BuiltinRegistry()); }

  std::shared_ptr<const Plan> PlanOn(const std::string& text, Phase phase,
                                     PlanOptions options = {}) const {
    const NetFile file = ParseNet(text, "net.prototxt");
    NetState state = file.net.state();
    state.set_phase(phase);
    options.device.type = DeviceType::kCuda;
    options.backward = phase == TRAIN;
    std::vector<Problem> warnings;
    return MakePlan(file.net, file.source, state, *registry_, options, &warnings);
  }

  std::unique_ptr<Registry> registry_;
  std::unique_ptr<CudnnStandIn> stand_in_;
};

inline const PlannedLayer& LayerOf(const Plan& plan, const std::string& name) {
  for (const PlannedLayer& layer : plan.layers) {
    if (layer.name() == name) return layer;
  }
  ADD_FAILURE() << "no layer " << name;
  return plan.layers[0];
}

// Returns the reason why an implementation of that layer was skipped; empty if it was not, or if
// it gives none.
inline std::string ReasonOf(const Plan& plan, const std::string& layer,
                            const std::string& implementation) {
  for (const SkippedImplementation& skipped : LayerOf(plan, layer).skipped) {
    if (skipped.implementation == implementation) return skipped.reason;
  }
  return "";
}

}  // namespace crema::test
