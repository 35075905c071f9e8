// Quantization of nets.
#include "quantization/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/memory_format.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/prototxt.h"
#include "math/int8_weights.h"
#include "quantization/quantize_fixture.h"
#include "support/net.h"

namespace crema {
namespace {

using test::FillBatch;
using test::FillInput;
using test::PlanOf;
using test::RelativeError;
using test::TestState;

class Quantize : public test::QuantizeTest {};

TEST_F(Quantize, NetsComputeNearlyTheSame) {
  const QuantizeResult result = Run();
  EXPECT_EQ(result.report.Quantized(), 7) << result.report.Text();
  const std::vector<float> right = OutputOf(net_, 2);
  const std::vector<float> made = OutputOf(result.net, 2);
  EXPECT_LT(RelativeError(right, made), 0.05) << result.report.Text();
  if (HasImplementations()) {
    EXPECT_GT(RelativeError(right, made), 1e-5);
  }
}

TEST_F(Quantize, SumsAreExactSoBitsDoNotDependOnThreads) {
  const NetParameter net = Run().net;
  const std::vector<float> one = OutputOf(net, 1);
  EXPECT_EQ(OutputOf(net, 2), one);
  EXPECT_EQ(OutputOf(net, 3, 2), one);
}

TEST_F(Quantize, WeightsThatMayChangeAreReadAnew) {
  const NetParameter net = Run().net;
  EXPECT_EQ(OutputOf(net, 2, 3, false), OutputOf(net, 2));
}

TEST_F(Quantize, BlobsStayBytesFromLayerToLayer) {
  if (!HasImplementations())
    GTEST_SKIP() << "this build or processor has no implementations on bytes";
  const auto plan = PlanOf(Run().net);
  std::string names, reorders;
  for (const PlannedLayer& layer : plan->layers) {
    if (layer.type->name == "Reorder") reorders += layer.name() + " ";
    if (layer.implementation != nullptr && layer.implementation->name.starts_with("int8")) {
      names += StrCat(layer.name(), ":", layer.implementation->name, " ");
    }
  }
  EXPECT_EQ(reorders, "x_to_nHWc_int8 ");
  EXPECT_EQ(names,
            "a:int8 p:int8 b:int8 d:int8 e:int8 f:int8 j:int8 drop:int8 g:int8 "
            "q:int8 ip:int8, int8 input ");
  const std::string text = DescribePlan(*plan);
  EXPECT_NE(text.find("in d"), std::string::npos) << text;  // the sum
}

TEST_F(Quantize, RangesTravelWithTheText) {
  const NetParameter net = Run().net;
  const NetFile again = ParseNet(PrintText(net), "again.prototxt");
  EXPECT_EQ(OutputOf(again.net, 2), OutputOf(net, 2));
  EXPECT_NE(PrintText(net).find("precision: INT8"), std::string::npos);
}

TEST_F(Quantize, JoinedAndPooledBlobsHaveOneRange) {
  const NetParameter net = Run().net;
  std::map<std::string, const LayerParameter*> layers;
  for (const LayerParameter& layer : net.layer()) layers[layer.name()] = &layer;
  const auto& join = layers["j"]->int8();
  EXPECT_EQ(join.bottom(0).max(), join.top(0).max());
  EXPECT_EQ(join.bottom(1).max(), join.top(0).max());
  EXPECT_FALSE(join.top(0).non_negative());  // 'f' has no ReLU
  EXPECT_EQ(layers["p"]->int8().bottom(0).max(), layers["p"]->int8().top(0).max());
  EXPECT_TRUE(layers["p"]->int8().top(0).non_negative());
}

TEST_F(Quantize, LayersThatLoseTooMuchStayInSinglePrecision) {
  const QuantizeResult usual = Run();
  // Between the worst and the best.
  std::vector<double> ratios;
  for (const QuantizedLayer& layer : usual.report.layers) ratios.push_back(layer.snr_db);
  std::ranges::sort(ratios);
  QuantizeOptions options;
  options.least_snr_db = (ratios[2] + ratios[3]) / 2;
  const QuantizeResult strict = Run(options);
  EXPECT_EQ(strict.report.Quantized(), 4);
  for (const QuantizedLayer& row : strict.report.layers) {
    const auto layer = std::ranges::find_if(
        strict.net.layer(), [&](const LayerParameter& param) { return param.name() == row.name; });
    EXPECT_EQ(row.quantized, row.snr_db >= options.least_snr_db) << row.name;
    EXPECT_EQ(layer->has_precision(), !row.quantized) << row.name;
    if (!row.quantized) {
      EXPECT_EQ(row.reason, "loses too much");
    }
  }
  EXPECT_LT(RelativeError(OutputOf(net_, 2), OutputOf(strict.net, 2)), 0.05);
  options.least_snr_db = 200;
  EXPECT_NE(Refused(options, FillBatch).find("no layer can compute on bytes"), std::string::npos);
}

TEST_F(Quantize, LossesAreThoseOfTheWholeList) {
  // Ranges clip most of the batches after the first ones, which alone would lose little.
  constexpr int64_t kBatches = 40;
  const auto inputs = [](int64_t index, Session& session) {
    if (index >= kBatches) return false;
    FillInput(&session, "x", static_cast<uint64_t>(index));
    const float factor = index < kBatches / 2 ? 1 : 10;
    for (float& v : session.MutableData("x").span<float>()) v *= factor;
    return true;
  };
  QuantizeOptions options;
  options.percentile = 50;
  options.least_snr_db = -1000;
  const QuantizeResult result = Run(options, inputs);
  EXPECT_EQ(result.report.batches, kBatches);
  EXPECT_LT(result.report.layers[0].snr_db, 10) << result.report.Text();
}

TEST_F(Quantize, KeepsLayersAsAsked) {
  QuantizeOptions options;
  options.keep_float = {"b", "ip"};
  const QuantizeResult result = Run(options);
  EXPECT_EQ(result.report.Quantized(), 5);
  options.keep_float = {"bb"};
  const std::string refused = Refused(options, FillBatch);
  EXPECT_NE(refused.find("no layer 'bb'"), std::string::npos) << refused;
}

TEST_F(Quantize, KeepsLayersWithoutProductsToo) {
  if (!HasImplementations())
    GTEST_SKIP() << "this build or processor has no implementations on bytes";
  QuantizeOptions options;
  options.keep_float = {"p", "rb"};
  const auto plan = PlanOf(Run(options).net);
  for (const std::string& name : options.keep_float) {
    const auto layer = std::ranges::find(plan->layers, name, &PlannedLayer::name);
    ASSERT_NE(layer, plan->layers.end()) << name << " is done by another layer";
    EXPECT_LT(layer->fusion.leader, 0) << name;
    EXPECT_TRUE(layer->implementation == nullptr ||
                !layer->implementation->name.starts_with("int8"))
        << name;
  }
}

TEST_F(Quantize, KeepsPrecisionsThatTheNetSays) {
  const std::map<std::string, Precision> wanted = {{"b", FP32}, {"g", BF16}, {"p", FP32}};
  for (LayerParameter& layer : *net_.mutable_layer()) {
    if (wanted.contains(layer.name())) layer.set_precision(wanted.at(layer.name()));
  }
  const QuantizeResult result = Run();
  EXPECT_EQ(result.report.Quantized(), 5) << result.report.Text();
  EXPECT_NE(result.report.Text().find("float: as the net says"), std::string::npos);
  for (const LayerParameter& layer : result.net.layer()) {
    const bool said = wanted.contains(layer.name());
    ASSERT_EQ(layer.has_precision(), said) << layer.name();
    if (said) {
      EXPECT_EQ(layer.precision(), wanted.at(layer.name())) << layer.name();
    }
  }
}

// 'b' is about 400 times as large as 'a', which has other consumers.
TEST_F(Quantize, ASmallBlobIsNotJoinedToAMuchLargerOne) {
  net_ = ParseNet(R"(
layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 3 dim: 16 dim: 16 } } }
layer { name: 'a' type: 'Convolution' bottom: 'x' top: 'a' convolution_param { num_output: 32
  kernel_size: 3 pad: 1 weight_filler { type: 'gaussian' std: 0.1 } } }
layer { name: 'ra' type: 'ReLU' bottom: 'a' top: 'a' }
layer { name: 'b' type: 'Convolution' bottom: 'x' top: 'b' convolution_param { num_output: 32
  kernel_size: 3 pad: 1 weight_filler { type: 'gaussian' std: 40 } } }
layer { name: 'rb' type: 'ReLU' bottom: 'b' top: 'b' }
layer { name: 'j' type: 'Concat' bottom: 'a' bottom: 'b' top: 'j' }
layer { name: 'cj' type: 'Convolution' bottom: 'j' top: 'cj' convolution_param { num_output: 32
  kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }
layer { name: 'ca' type: 'Convolution' bottom: 'a' top: 'ca' convolution_param { num_output: 32
  kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } })",
                  "net.prototxt")
             .net;
  weights_ = Weights::Make(*PlanOf(net_), 3);
  const QuantizeResult result = Run();
  EXPECT_EQ(result.report.Quantized(), 4) << result.report.Text();
  for (const QuantizedLayer& output : result.report.outputs) {
    EXPECT_LT(output.accumulated_error, 0.1) << result.report.Text();
  }
}

// Another layer overwrites the blob after the ReLU fused into 'b', so it is not observable.
TEST_F(Quantize, ErrorsInTheNetAreOfTheSameBlob) {
  NetParameter with;
  for (const LayerParameter& layer : net_.layer()) {
    *with.add_layer() = layer;
    if (layer.name() != "rb") continue;
    LayerParameter* other = with.add_layer();
    *other = layer;
    other->set_name("other");
    other->set_type("Power");
    other->mutable_power_param()->set_scale(0.01F);
  }
  net_ = with;
  const QuantizeResult result = Run();
  const auto row = std::ranges::find(result.report.layers, "b", &QuantizedLayer::name);
  EXPECT_TRUE(std::isnan(row->accumulated_error) || row->accumulated_error < 0.1)
      << result.report.Text();
}

TEST_F(Quantize, OtherRulesGiveRangesToo) {
  for (const RangeRule rule : {RangeRule::kEntropy, RangeRule::kLargest}) {
    QuantizeOptions options;
    options.rule = rule;
    EXPECT_LT(RelativeError(OutputOf(net_, 1), OutputOf(Run(options).net, 1)), 0.05);
  }
  QuantizeOptions options;
  options.rule = RangeRule::kPercentile;
  options.percentile = 0;
  EXPECT_NE(Refused(options, FillBatch).find("percentile"), std::string::npos);
}

TEST_F(Quantize, RefusesListsThatSayNothing) {
  EXPECT_NE(Refused({}, nullptr).find("needs a calibration list"), std::string::npos);
  EXPECT_NE(Refused({}, [](int64_t, Session&) { return false; }).find("list is empty"),
            std::string::npos);
  const auto constant = [](int64_t index, Session& session) {
    std::ranges::fill(session.MutableData("x").span<float>(), 0.5F);
    return index < 2;
  };
  EXPECT_NE(Refused({}, constant).find("is 0.5 everywhere"), std::string::npos);
  const auto broken = [](int64_t index, Session& session) {
    FillBatch(0, session);
    session.MutableData("x").span<float>()[5] = std::numeric_limits<float>::quiet_NaN();
    return index < 2;
  };
  EXPECT_NE(Refused({}, broken).find("not finite"), std::string::npos);
}

TEST(QuantizeReport, WarnsOfWhatIsLostInTheNet) {
  QuantizeReport report;
  report.layers = {{.name = "good", .type = {}, .accumulated_error = 0.1},
                   {.name = "bad", .type = {}, .accumulated_error = 0.9}};
  const std::string text = report.Text();
  EXPECT_NE(text.find("warning: bad has lost 90.00 % in the net"), std::string::npos) << text;
  EXPECT_EQ(text.find("warning: good"), std::string::npos) << text;
}

TEST_F(Quantize, ReportsAreTextAndJson) {
  const QuantizeReport report = Run().report;
  const std::string text = report.Text();
  EXPECT_NE(text.find("7 of 7 layers with products compute in int8; 3 batches"), std::string::npos)
      << text;
  EXPECT_EQ(std::ranges::count(text, '\n'), 10);
  EXPECT_NE(report.Json().find("\"name\":\"a\",\"type\":\"Convolution\",\"int8\":true"),
            std::string::npos);
  EXPECT_EQ(report.outputs.size(), 1U);
  // Without VNNI weights have half as many steps, which costs 6 dB.
  const double least = LargestInt8Weight() == 127 ? 25 : 19;
  for (const QuantizedLayer& layer : report.layers) {
    EXPECT_GT(layer.snr_db, least) << layer.name;
    EXPECT_LT(layer.relative_error, 0.05) << layer.name;
    // Implementations in single precision may fuse the layers after it, which hides its output.
    if (HasImplementations()) {
      EXPECT_FALSE(std::isnan(layer.accumulated_error)) << layer.name;
    }
  }
}

}  // namespace
}  // namespace crema
