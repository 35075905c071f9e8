#include "runtime/step_binder.h"

#include <gtest/gtest.h>

#include <array>
#include <utility>

#include "core/error.h"
#include "support/net.h"

namespace crema {
namespace {

using test::PlanText;

constexpr const char* kBoundNet = R"(
force_backward: true
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 6 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip"
  inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "Reduction" bottom: "ip" top: "loss" loss_weight: 3 }
)";

struct Bound {
  explicit Bound(std::shared_ptr<const Plan> made = PlanText(kBoundNet))
      : plan(std::move(made)),
        context(1, 1),
        parameters(*plan, context, Weights::Make(*plan, 1), nullptr),
        values(*plan, context),
        binder(*plan, context, &values, parameters) {}

  std::shared_ptr<const Plan> plan;
  ExecContext context;
  SessionParameters parameters;
  SessionValues values;
  StepBinder binder;
};

TEST(StepBinder, BindsPlannedShapes) {
  Bound bound;
  ASSERT_EQ(bound.binder.size(), 3U);
  const LayerStep& ip = bound.binder.ForwardStep(1);
  EXPECT_EQ(ip.forward_inputs[0].raw(), bound.values.Data(0).raw());
  EXPECT_EQ(ip.forward_outputs[0].shape(), (Shape{4, 5}));
  EXPECT_EQ(ip.parameters.size(), 2U);
  EXPECT_TRUE(ip.statistics[0].empty());
  EXPECT_EQ(ip.parameter_grads[0].raw(), bound.parameters.Gradient(0).raw());
  const LayerStep& loss = bound.binder.BackwardStep(2);
  EXPECT_EQ(loss.seed_values, std::vector<float>{3});
}

TEST(StepBinder, InfersShapesAgainInTheOrderOfTheLayers) {
  Bound bound;
  const void* place = bound.binder.step(1).forward_outputs[0].raw();
  bound.values.SetShape(0, {2, 6});
  EXPECT_EQ(bound.binder.ForwardStep(0).forward_outputs[0].shape(), (Shape{2, 6}));
  const LayerStep& ip = bound.binder.ForwardStep(1);
  EXPECT_EQ(ip.forward_inputs[0].shape(), (Shape{2, 6}));
  EXPECT_EQ(ip.forward_outputs[0].shape(), (Shape{2, 5}));
  EXPECT_EQ(ip.forward_outputs[0].raw(), place);
  EXPECT_EQ(bound.binder.BackwardStep(1).input_grads[0].shape(), (Shape{2, 6}));
  EXPECT_EQ(bound.binder.BackwardStep(2).input_grads[0].shape(), (Shape{2, 5}));
}

TEST(StepBinder, RefusesInputsThatNeedOtherParameters) {
  Bound bound;
  bound.values.SetShape(0, {6, 4});
  for (int pass = 0; pass < 2; ++pass) {
    try {
      bound.binder.ForwardStep(1);
      ADD_FAILURE() << "bound";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_EQ(error.problems()[0].where.layer, "ip");
    }
  }
  bound.values.SetShape(0, {4, 6});
  EXPECT_EQ(bound.binder.ForwardStep(1).forward_outputs[0].shape(), (Shape{4, 5}));
}

TEST(StepBinder, RebindsLayersThatUseAnExternalBuffer) {
  auto plan = std::make_shared<Plan>(*PlanText(kBoundNet));
  plan->values[0].data.buffer_owner = 0;
  plan->layers[0].info.external_output = {true};
  Bound bound(plan);
  ASSERT_EQ(bound.binder.step(0).external.size(), 1U);
  EXPECT_TRUE(bound.binder.step(1).forward_inputs[0].empty());
  std::array<std::byte, 96> buffer = {};
  bound.binder.step(0).external[0] = buffer.data();
  bound.binder.TakeExternalBuffers(0);
  EXPECT_EQ(bound.binder.step(0).external[0], nullptr);
  EXPECT_EQ(bound.binder.ForwardStep(1).forward_inputs[0].raw(), buffer.data());
  EXPECT_EQ(bound.binder.BackwardStep(1).backward_inputs[0].raw(), buffer.data());
}

}  // namespace
}  // namespace crema
