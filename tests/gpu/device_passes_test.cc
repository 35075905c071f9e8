#include "runtime/device_passes.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/device_memory.h"
#include "crema.pb.h"
#include "format/prototxt.h"
#include "math/cuda/emulation.h"
#include "support/gpu.h"

namespace crema {
namespace {

constexpr const char* kPassesNet = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 } } }
layer { name: "loss" type: "Reduction" bottom: "x" top: "loss" loss_weight: 3 }
)";

std::shared_ptr<const Plan> PlanOfNet() {
  const NetFile file = ParseNet(kPassesNet, "net.prototxt");
  NetState state;
  state.set_phase(TRAIN);
  std::vector<Problem> warnings;
  return MakePlan(file.net, file.source, state, test::LayersOfStandIn(),
                  {.device = {DeviceType::kCuda, 0}}, &warnings);
}

struct Passes {
  std::shared_ptr<const Plan> plan = PlanOfNet();
  ExecContext context = EmulatedGpuContext(1);
  SessionValues values{*plan, context};
  DevicePasses passes{*plan, context, values};
  std::vector<size_t> layers;  // that were run

  void Forward(bool captures = true) {
    context.set_step(context.step() + 1);
    passes.Forward(captures, [this](size_t layer) { layers.push_back(layer); });
  }
};

TEST(DevicePasses, AddUpTheLossOfThePass) {
  Passes p;
  const float loss = 2;
  Upload(p.context, p.values.Data(p.plan->FindValue("loss")).raw(), &loss, sizeof(loss));
  for (int pass = 0; pass < 4; ++pass) {
    p.Forward();
    EXPECT_EQ(p.passes.Loss(), 6);
  }
}

// The second pass captures, so that later ones need no host.
TEST(DevicePasses, LaunchGraphsFromTheThirdPassOn) {
  Passes p;
  for (int pass = 0; pass < 4; ++pass) p.Forward();
  EXPECT_EQ(p.layers, (std::vector<size_t>{0, 1, 0, 1}));
  p.Forward(false);
  EXPECT_EQ(p.layers.size(), 6U);
  p.values.SetShape(0, {3});
  p.Forward();
  EXPECT_EQ(p.layers.size(), 8U);
  EXPECT_EQ(p.passes.WhyNoGraph(), "");
}

TEST(DevicePasses, CaptureNothingOnceRefused) {
  Passes p;
  p.passes.Refuse("first");
  p.passes.Refuse("second");
  for (int pass = 0; pass < 4; ++pass) p.Forward();
  EXPECT_EQ(p.layers.size(), 8U);
  EXPECT_EQ(p.passes.WhyNoGraph(), "first");
}

TEST(DevicePasses, CaptureBackwardAnewForAnotherScalePlace) {
  Passes p;
  int runs = 0;
  const auto body = [&] { ++runs; };
  for (int pass = 0; pass < 4; ++pass) p.passes.Backward(true, body);
  EXPECT_EQ(runs, 2);
  const double scale = 4;
  p.passes.set_scale_place(&scale);
  EXPECT_EQ(p.passes.scale_place(), &scale);
  for (int pass = 0; pass < 4; ++pass) p.passes.Backward(true, body);
  EXPECT_EQ(runs, 4);
}

}  // namespace
}  // namespace crema
