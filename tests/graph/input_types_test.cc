// Blobs of bytes: the layers that accept them, and errors of planning.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/dot.h"
#include "graph/infer.h"
#include "graph/replace_sources.h"
#include "plan/summary.h"
#include "support/net.h"

namespace crema {
namespace {

using test::PlanError;
using test::PlanText;

constexpr const char* kBytes =
    "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 2 dim: 8 dim: 6 "
    "dim: 3 } } pipeline_param { output: U8 } }\n";

std::string Layer(const std::string& name, const std::string& type, const std::string& bottom,
                  const std::string& more = "") {
  return StrCat("layer { name: '", name, "' type: '", type, "' bottom: '", bottom, "' top: '", name,
                "' ", more, " }\n");
}

std::string Floats(const std::string& bottom = "data") {
  return Layer("floats", "PixelsToFloat", bottom, "transform_param { mean_value: 3 }");
}

constexpr const char* kIp =
    "inner_product_param { num_output: 2 weight_filler { type: 'xavier' } }";

void ExpectContains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(InputTypes, OtherLayersRefuseBytesAndSayWhatToDo) {
  const std::string advice =
      "bottom \"data\" holds bytes (u8, from pipeline_param.output of layer \"data\"): put a "
      "PixelsToFloat layer between";
  for (const std::string& layer :
       {Layer("conv1", "Convolution", "data", "convolution_param { num_output: 4 kernel_size: 3 }"),
        Layer("conv1", "ReLU", "data"), Layer("conv1", "Flatten", "data"),
        Layer("conv1", "InnerProduct", "data", kIp), Layer("conv1", "Softmax", "data")}) {
    const std::string error = PlanError(kBytes + layer);
    ExpectContains(error, advice);
    ExpectContains(error, "layer \"conv1\"");
  }
  // An input that is not the first, after the Split of several readers.
  const std::string second =
      PlanError(kBytes + Floats() +
                "layer { name: 'sum' type: 'Concat' bottom: 'floats' bottom: 'data' top: 'sum' }");
  ExpectContains(second, advice);
  ExpectContains(second, "layer \"sum\"");
}

TEST(InputTypes, PixelsToFloatRefusesNumbers) {
  const std::string error = PlanError(
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 4 dim: 4 dim: 3 "
      "} } }" +
      Floats("x"));
  ExpectContains(error, "holds numbers (f32, from layer \"x\"), but a layer of type PixelsToFloat");
  ExpectContains(error, "set pipeline_param { output: U8 } in the data layer");
}

TEST(InputTypes, BytesAreNoLoss) {
  ExpectContains(
      PlanError("layer { name: 'data' type: 'Input' top: 'data' loss_weight: 1 input_param { shape "
                "{ dim: 2 } } pipeline_param { output: U8 } }"),
      "top \"data\" holds bytes, which are no loss");
}

TEST(InputTypes, SplitsAndSilenceTakeBytes) {
  const std::string text =
      "force_backward: true " + std::string(kBytes) + Floats() +
      Layer("others", "PixelsToFloat", "data") + Layer("ip", "InnerProduct", "floats", kIp) +
      "layer { name: 'hush' type: 'Silence' bottom: 'data' bottom: 'others' }"
      "layer { name: 'loss' type: 'Reduction' bottom: 'ip' top: 'loss' loss_weight: 1 }";
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    const auto plan = PlanText(text, TRAIN, {.dtype = dtype});
    Session session(plan, Weights::Make(*plan, 1), ExecContext(1, 1));
    const auto bytes = session.MutableData("data").span<uint8_t>();
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i);
    session.Forward();
    session.Backward();
    EXPECT_TRUE(session.Gradient("data").empty());
    EXPECT_FALSE(session.Gradient("ip").empty());
    for (const PlannedValue& value : plan->values) {
      const bool bytes_of_images = value.spec.dtype == DType::kU8;
      EXPECT_TRUE(!bytes_of_images || value.gradient.offset == -1) << value.name;
    }
    const PlannedValue& data = plan->values[static_cast<size_t>(plan->FindFirstValue("data"))];
    EXPECT_EQ(data.data.bytes, 2 * 8 * 6 * 3);
    EXPECT_EQ(session.Data("floats").dtype(), dtype);
  }
}

TEST(InputTypes, FloatsMayTakeTheNameOfTheBytes) {
  const auto plan =
      PlanText(std::string(kBytes) +
               "layer { name: 'floats' type: 'PixelsToFloat' bottom: 'data' top: 'data' }");
  Session session(plan, Weights::Make(*plan, 1), ExecContext(1, 1));
  session.MutableData("data").span<uint8_t>()[1] = 77;
  session.Forward();
  EXPECT_EQ(session.Data("data").shape(), (Shape{2, 3, 8, 6}));
  EXPECT_EQ(session.Data("data").span<float>()[48], 77);
}

TEST(InputTypes, SmallerBatchesFollow) {
  const auto plan = PlanText(kBytes + Floats());
  Session session(plan, Weights::Make(*plan, 1), ExecContext(1, 1));
  session.Reshape("data", {1, 8, 6, 3});
  session.Forward();
  EXPECT_EQ(session.Data("floats").shape(), (Shape{1, 3, 8, 6}));
}

TEST(InputTypes, SummaryAndDrawingKnowBytes) {
  const auto plan = PlanText(kBytes + Floats());
  const NetSummary summary = Summarize(*plan);
  EXPECT_EQ(summary.layers[0].activation_bytes, 2 * 8 * 6 * 3);
  EXPECT_EQ(summary.layers[1].activation_bytes, 4 * 2 * 8 * 6 * 3);
  const NetFile file = ParseNet(kBytes + Floats(), "net.prototxt");
  NetState state;
  std::vector<Problem> warnings;
  const Graph graph = BuildGraph(file.net, file.source, state, test::TestRegistry(), &warnings);
  ExpectContains(ToDot(graph, InferShapes(graph, {})), "\\n2x8x6x3 u8\"");
}

TEST(InputTypes, NetsWhoseDataIsNotHereKeepBytes) {
  const std::string data =
      "layer { name: 'd' type: 'Data' top: 'data' top: 'label' data_param { source: 'no/such' "
      "batch_size: 5 } ";
  const auto plan_of = [](const std::string& text, const SourceShapes& shapes) {
    NetFile file = ParseNet(text, "net.prototxt");
    ReplaceSources(shapes, test::TestRegistry(), &file.net);
    std::vector<Problem> warnings;
    return MakePlan(file.net, file.source, {}, test::TestRegistry(), {}, &warnings);
  };
  const auto plan = plan_of(
      data + "transform_param { crop_h: 8 crop_w: 6 } pipeline_param { output: U8 } }" + Floats(),
      {});
  const auto spec = [&](const std::string& name) {
    return plan->values[static_cast<size_t>(plan->FindFirstValue(name))].spec;
  };
  EXPECT_EQ(spec("data").dtype, DType::kU8);
  EXPECT_EQ(spec("data").shape, (Shape{5, 8, 6, 3}));
  EXPECT_EQ(spec("label").dtype, DType::kF32);
  EXPECT_EQ(spec("floats").shape, (Shape{5, 3, 8, 6}));
  NetFile unknown = ParseNet(data + "pipeline_param { output: U8 } }", "net.prototxt");
  try {
    ReplaceSources({}, test::TestRegistry(), &unknown.net);
    ADD_FAILURE() << "it does not say how large";
  } catch (const Error& error) {
    ExpectContains(error.what(), "data:N,H,W,C");
  }
}

}  // namespace
}  // namespace crema
