#include "runtime/session_values.h"

#include <gtest/gtest.h>

#include <array>

#include "core/error.h"
#include "crema.pb.h"
#include "support/net.h"

namespace crema {
namespace {

using test::PlanText;

constexpr const char* kValuesNet = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 6 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip"
  inner_product_param { num_output: 5 } }
)";

TEST(SessionValues, CountChangesOfShapesAndKeepPlaces) {
  const auto plan = PlanText(kValuesNet);
  const ExecContext context(1, 1);
  SessionValues values(*plan, context);
  const int x = plan->FindValue("x");
  const void* place = values.Data(x).raw();
  EXPECT_EQ(values.version(), 0U);
  values.SetShape(x, {4, 6});
  EXPECT_EQ(values.version(), 0U);
  values.SetShape(x, {3, 6});
  EXPECT_EQ(values.version(), 1U);
  EXPECT_EQ(values.Spec(x).shape, (Shape{3, 6}));
  EXPECT_EQ(values.Data(x).shape(), (Shape{3, 6}));
  EXPECT_EQ(values.Data(x).raw(), place);
  EXPECT_EQ(values.LateData(x).raw(), place);
}

TEST(SessionValues, HaveNoGradientThatWasNotPlanned) {
  const auto plan = PlanText(kValuesNet, TEST, {.backward = false});
  const ExecContext context(1, 1);
  const SessionValues values(*plan, context);
  EXPECT_TRUE(values.Gradient(plan->FindValue("ip")).empty());
}

TEST(SessionValues, PlaceExternalBuffers) {
  const auto plan = PlanText(kValuesNet);
  const ExecContext context(1, 1);
  SessionValues values(*plan, context);
  const ArenaSlot slot{.offset = 0, .bytes = 96, .buffer_owner = 0};
  const BlobSpec spec{{4, 6}};
  EXPECT_TRUE(values.View(slot, spec).empty());
  std::array<std::byte, 96> buffer = {};
  values.SetExternalBuffer(0, buffer.data());
  EXPECT_EQ(values.View(slot, spec).raw(), buffer.data());
  EXPECT_TRUE(values.View({}, spec).empty());
}

// Fewer images of a sub-view lie where they were planned; images of another size do not fit there.
TEST(SessionValues, GiveSubViewsOfOtherShapesMemoryOfTheirOwn) {
  Plan plan = *PlanText(kValuesNet);
  const int ip = plan.FindValue("ip");
  PlannedValue& planned = plan.values[static_cast<size_t>(ip)];
  planned.data.offset = plan.arena_bytes;
  planned.data.image_stride = 10 * sizeof(float);
  planned.sub_view_of = ip;
  plan.arena_bytes += 4 * planned.data.image_stride;
  const ExecContext context(1, 1);
  SessionValues values(plan, context);
  EXPECT_TRUE(values.IsSubView(ip));
  const void* place = values.Data(ip).raw();
  EXPECT_EQ(values.Data(ip).image_stride(), 10);
  values.SetShape(ip, {2, 5});
  EXPECT_TRUE(values.IsSubView(ip));
  EXPECT_EQ(values.Data(ip).raw(), place);
  values.SetShape(ip, {1, 5});
  EXPECT_EQ(values.Data(ip).image_stride(), 0);
  values.SetShape(ip, {5, 4});
  EXPECT_FALSE(values.IsSubView(ip));
  EXPECT_NE(values.Data(ip).raw(), place);
  EXPECT_EQ(values.Data(ip).image_stride(), 0);
}

TEST(CheckFits, AllowsAsManyElementsAsPlanned) {
  const BlobSpec planned{{4, 6}};
  EXPECT_NO_THROW(CheckFits({{24}}, planned, "x"));
  EXPECT_NO_THROW(CheckFits({{2, 6}}, planned, "x"));
  EXPECT_THROW(CheckFits({{5, 6}}, planned, "x"), Error);
  EXPECT_THROW(CheckFits({{2, 6}, DType::kF64}, planned, "x"), Error);
}

}  // namespace
}  // namespace crema
