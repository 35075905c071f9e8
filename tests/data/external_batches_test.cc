// Nets with external (zero-copy) batches compute the same as nets with copies.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/layer_runner.h"
#include "data/record_sets.h"
#include "plan/summary.h"
#include "runtime/session.h"
#include "support/net.h"

namespace crema {
namespace {

using test::PlanText;
using test::TestRegistry;
using test::ValuesOf;

constexpr int kGrayRecords = 11;  // batches of three wrap at varying places

std::string WriteGray(const test::TempDir& temp) {
  const std::string path = temp.File("set");
  const auto writer = CreateRecords(path, DataParameter::LMDB);
  for (int n = 0; n < kGrayRecords; ++n) {
    writer->Put(testing::NumberedKey(n), testing::GrayDatum(4, 5, n).SerializeAsString());
  }
  writer->Close();
  return path;
}

std::string ScaledLayer(const std::string& source) {
  return StrCat("name: 'd' type: 'Data' top: 'data' top: 'label' data_param { source: '", source,
                "' batch_size: 3 } transform_param { scale: 0.01 }");
}

// Views, several consumers, and a layer that would work in place on the batch.
const char* kRest = R"(
layer { name: "flat" type: "Flatten" bottom: "data" top: "flat" }
layer { name: "shift" type: "Power" bottom: "data" top: "data" power_param { shift: 0.5 } }
layer { name: "a" type: "InnerProduct" bottom: "flat" top: "a"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "b" type: "InnerProduct" bottom: "data" top: "b"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "sum" type: "Eltwise" bottom: "a" bottom: "b" top: "sum" }
layer { name: "clip" type: "Power" bottom: "label" top: "class" power_param { scale: 0.25 } }
layer { name: "last" type: "InnerProduct" bottom: "sum" top: "last"
  inner_product_param { num_output: 1 weight_filler { type: "xavier" } } }
layer { name: "row" type: "Reshape" bottom: "last" top: "row" reshape_param { shape { dim: 3 } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "row" bottom: "class" top: "loss" }
)";

std::vector<std::vector<float>> GradientsOf(Session* session) {
  session->ZeroParameterGradients();
  session->Backward();
  std::vector<std::vector<float>> all;
  for (size_t s = 0; s < session->plan().parameters.size(); ++s) {
    all.push_back(ValuesOf(session->ParameterGradient(s)));
  }
  return all;
}

void CopyInto(const TensorView& to, const Tensor& from) {
  ASSERT_EQ(to.bytes(), from.view().bytes());
  std::memcpy(to.raw(), from.view().raw(), to.bytes());
}

void ExpectSameAsFromCopies(const PlanOptions& options, const std::string& rest = kRest) {
  const test::TempDir temp;
  const std::string layer = ScaledLayer(WriteGray(temp));
  const auto external_plan = PlanText(StrCat("layer {", layer, "}", rest), TRAIN, options);
  const auto plan =
      PlanText(StrCat("layer { name: 'x' type: 'Input' top: 'data' top: 'label' input_param {",
                      " shape { dim: [3, 1, 4, 5] } shape { dim: 3 } } }", kRest),
               TRAIN, options);
  Session external(external_plan, Weights::Make(*external_plan, 3), ExecContext(1, 3));
  Session copied(plan, Weights::Make(*plan, 3), ExecContext(1, 3));
  testing::LayerRunner runner(TestRegistry(), layer);
  for (int n = 0; n < 10; ++n) {
    runner.Forward();
    CopyInto(copied.MutableData("data"), runner.outputs[0]);
    CopyInto(copied.MutableData("label"), runner.outputs[1]);
    ASSERT_EQ(external.Forward(), copied.Forward()) << "pass " << n;
    EXPECT_EQ(ValuesOf(external.Data("label")), ValuesOf(copied.Data("label")));
    // A layer that runs again does not keep it.
    if (rest == kRest) {
      EXPECT_EQ(ValuesOf(external.Data("data")), ValuesOf(copied.Data("data")));
    }
    EXPECT_EQ(GradientsOf(&external), GradientsOf(&copied)) << "pass " << n;
  }
}

TEST(ExternalBatches, NetComputesWhatItComputesFromCopies) {
  ExpectSameAsFromCopies({.optimize = true});
  ExpectSameAsFromCopies({.optimize = false});
}

TEST(ExternalBatches, AreReadAgainByLayersThatRunAgain) {
  std::string again = kRest;
  again.insert(again.find("name: \"shift\""), "recompute: true ");
  ExpectSameAsFromCopies({.optimize = true}, again);
}

// A layer that reads an external batch and a blob whose shape changes must notice both.
TEST(ExternalBatches, ConsumersNoticeShapeChanges) {
  const test::TempDir temp;
  const auto plan =
      PlanText(StrCat("layer { name: 'in' type: 'Input' top: 'in' input_param {"
                      "  shape { dim: [6, 1, 4, 5] } } }",
                      "layer {", ScaledLayer(WriteGray(temp)), "}",
                      "layer { name: 'all' type: 'Concat' bottom: 'data' bottom: 'in' top: 'all'"
                      "  concat_param { axis: 0 } }"));
  Session session(plan, Weights::Make(*plan, 3), ExecContext(1, 3));
  for (const int64_t rows : {6, 2, 5, 5, 1}) {
    session.Reshape("in", Shape{rows, 1, 4, 5});
    const TensorView in = session.MutableData("in");
    std::ranges::fill(in.span<float>(), static_cast<float>(rows));
    session.Forward();
    std::vector<float> expected = ValuesOf(session.Data("data"));
    expected.insert(expected.end(), static_cast<size_t>(rows) * 20, static_cast<float>(rows));
    EXPECT_EQ(session.Data("all").shape(), (Shape{3 + rows, 1, 4, 5}));
    EXPECT_EQ(ValuesOf(session.Data("all")), expected) << rows;
  }
}

TEST(ExternalBatches, TakeNoPlaceInTheArena) {
  const test::TempDir temp;
  const auto plan = PlanText(StrCat("layer {", ScaledLayer(WriteGray(temp)), "}", kRest));
  const int data = plan->FindFirstValue("data");
  const PlannedValue& value = plan->values[static_cast<size_t>(data)];
  EXPECT_EQ(value.data.buffer_owner, data);
  EXPECT_EQ(plan->values[static_cast<size_t>(plan->FindValue("flat"))].data.buffer_owner, data);
  EXPECT_EQ(plan->values[static_cast<size_t>(plan->FindValue("a"))].data.buffer_owner, -1);
}

TEST(ExternalBatches, AreCountedWithThoseReadAhead) {
  const test::TempDir temp;
  const auto plan = PlanText(StrCat("layer {", ScaledLayer(WriteGray(temp)), "}", kRest));
  // Four batches ahead and one in use, each of three images of 4 x 5 and three labels.
  EXPECT_EQ(Summarize(*plan).read_ahead_bytes, 5 * 3 * (4 * 5 + 1) * 4);
}

TEST(ExternalBatches, PlansThatAreNotOptimisedHaveThemInTheArenaWhereTheyCanBeSet) {
  const test::TempDir temp;
  const auto plan = PlanText(StrCat("layer {", ScaledLayer(WriteGray(temp)), "}", kRest), TRAIN,
                             {.optimize = false});
  Session session(plan, Weights::Make(*plan, 3), ExecContext(1, 3));
  EXPECT_NE(session.MutableData("data").raw(), nullptr);
}

TEST(ExternalBatches, ThereIsNothingToSeeBeforeTheFirst) {
  const test::TempDir temp;
  const auto plan = PlanText(StrCat("layer {", ScaledLayer(WriteGray(temp)), "}", kRest));
  Session session(plan, Weights::Make(*plan, 3), ExecContext(1, 3));
  EXPECT_EQ(session.Data("flat").raw(), nullptr);
  session.Forward();
  EXPECT_NE(session.Data("flat").raw(), nullptr);
}

}  // namespace
}  // namespace crema
