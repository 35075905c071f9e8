// Nets made ready for bytes, and what their plans and outputs become.
#include "quantization/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/memory_format.h"
#include "core/strings.h"
#include "format/prototxt.h"
#include "graph/precision.h"
#include "math/int8_weights.h"
#include "support/net.h"

namespace crema {
namespace {

using test::FillInput;

// Everything that has rows on bytes, a residual block, and layers that have none.
const char* const kNet = R"(
layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 dim: 32 dim: 32 } } }
layer { name: 'a' type: 'Convolution' bottom: 'x' top: 'a' convolution_param { num_output: 64
  kernel_size: 5 pad: 2 weight_filler { type: 'msra' } } }
layer { name: 'na' type: 'BatchNorm' bottom: 'a' top: 'a' }
layer { name: 'sa' type: 'Scale' bottom: 'a' top: 'a' scale_param { bias_term: true } }
layer { name: 'ra' type: 'ReLU' bottom: 'a' top: 'a' }
layer { name: 'p' type: 'Pooling' bottom: 'a' top: 'p' pooling_param { kernel_size: 2 stride: 2 } }
layer { name: 'b' type: 'Convolution' bottom: 'p' top: 'b' convolution_param { num_output: 64
  kernel_size: 3 pad: 1 bias_term: false weight_filler { type: 'msra' } } }
layer { name: 'rb' type: 'ReLU' bottom: 'b' top: 'b' }
layer { name: 'd' type: 'Convolution' bottom: 'b' top: 'd' convolution_param { num_output: 64
  kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }
layer { name: 'nd' type: 'BatchNorm' bottom: 'd' top: 'd' }
layer { name: 'sum' type: 'Eltwise' bottom: 'p' bottom: 'd' top: 'sum' }
layer { name: 'rs' type: 'ReLU' bottom: 'sum' top: 'sum' }
layer { name: 'e' type: 'Convolution' bottom: 'sum' top: 'e' convolution_param { num_output: 64
  kernel_size: 1 weight_filler { type: 'msra' } } }
layer { name: 're' type: 'ReLU' bottom: 'e' top: 'e' }
layer { name: 'f' type: 'Convolution' bottom: 'sum' top: 'f' convolution_param { num_output: 32
  kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }
layer { name: 'j' type: 'Concat' bottom: 'e' bottom: 'f' top: 'j' }
layer { name: 'drop' type: 'Dropout' bottom: 'j' top: 'j' }
layer { name: 'g' type: 'Convolution' bottom: 'j' top: 'g' convolution_param { num_output: 64
  kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }
layer { name: 'q' type: 'Pooling' bottom: 'g' top: 'q' pooling_param { pool: AVE
  global_pooling: true } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'q' top: 'ip' inner_product_param { num_output: 80
  weight_filler { type: 'xavier' } } }
)";

NetState TestState() {
  NetState state;
  state.set_phase(TEST);
  return state;
}

std::shared_ptr<const Plan> PlanOf(const NetParameter& net, PlanOptions options = {}) {
  options.backward = false;
  std::vector<Problem> warnings;
  return MakePlan(net, {}, TestState(), test::TestRegistry(), options, &warnings);
}

// Three batches of different numbers.
bool FillBatch(int64_t index, Session& session) {
  if (index >= 3) return false;
  FillInput(&session, "x", static_cast<uint64_t>(index));
  return true;
}

class Quantize : public testing::Test {
 protected:
  Quantize()
      : net_(ParseNet(kNet, "net.prototxt").net), weights_(Weights::Make(*PlanOf(net_), 3)) {}

  QuantizeResult Run(const QuantizeOptions& options = {},
                     const CalibrationInputs& inputs = FillBatch) {
    return QuantizeModel(net_, {}, TestState(), test::TestRegistry(), weights_, inputs, options);
  }

  std::string Refused(const QuantizeOptions& options, const CalibrationInputs& inputs) {
    try {
      Run(options, inputs);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.what();
    }
    return {};
  }

  std::vector<float> OutputOf(const NetParameter& net, int threads, int times = 1,
                              bool fixed = true) const {
    Session session(PlanOf(net, {.threads = threads}), weights_, ExecContext(threads, 1));
    if (fixed) session.FixWeights();
    for (int i = 0; i < times; ++i) {
      FillInput(&session, "x", 77);
      session.Forward();
    }
    return test::ValuesOf(session.Data("ip"));
  }

  static bool HasRows() {
    const auto& rows = test::TestRegistry().Find("Convolution")->kernels;
    return ChannelBlock() > 0 && std::ranges::find(rows, "int8", &Kernel::name) != rows.end();
  }

  NetParameter net_;
  std::shared_ptr<const Weights> weights_;
};

double RelativeError(const std::vector<float>& right, const std::vector<float>& made) {
  double signal = 0, noise = 0;
  for (size_t i = 0; i < right.size(); ++i) {
    signal += double{right[i]} * double{right[i]};
    noise += (double{right[i]} - double{made[i]}) * (double{right[i]} - double{made[i]});
  }
  return std::sqrt(noise / signal);
}

TEST_F(Quantize, NetsComputeNearlyTheSame) {
  const QuantizeResult result = Run();
  EXPECT_EQ(result.report.Quantized(), 7) << result.report.Text();
  const std::vector<float> right = OutputOf(net_, 2);
  const std::vector<float> made = OutputOf(result.net, 2);
  EXPECT_LT(RelativeError(right, made), 0.05) << result.report.Text();
  if (HasRows()) {
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
  if (!HasRows()) GTEST_SKIP() << "this build or processor has no rows on bytes";
  const auto plan = PlanOf(Run().net);
  std::string kernels, reorders;
  for (const PlannedLayer& layer : plan->layers) {
    if (layer.type->name == "Reorder") reorders += layer.name() + " ";
    if (layer.kernel != nullptr && layer.kernel->name.starts_with("int8")) {
      kernels += StrCat(layer.name(), ":", layer.kernel->name, " ");
    }
  }
  EXPECT_EQ(reorders, "x_to_nHWc_int8 ");
  EXPECT_EQ(kernels,
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
  // Above the worst and below the best.
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
  if (!HasRows()) GTEST_SKIP() << "this build or processor has no rows on bytes";
  QuantizeOptions options;
  options.keep_float = {"p", "rb"};
  const auto plan = PlanOf(Run(options).net);
  for (const std::string& name : options.keep_float) {
    const auto layer = std::ranges::find(plan->layers, name, &PlannedLayer::name);
    ASSERT_NE(layer, plan->layers.end()) << name << " is done by another layer";
    EXPECT_LT(layer->absorbed_by, 0) << name;
    EXPECT_TRUE(layer->kernel == nullptr || !layer->kernel->name.starts_with("int8")) << name;
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

// 'b' is some 400 times as large as 'a', which others read as well.
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

TEST_F(Quantize, ReportsAreTextAndJson) {
  const QuantizeReport report = Run().report;
  const std::string text = report.Text();
  EXPECT_NE(text.find("7 of 7 layers with products compute in int8; 3 batches"), std::string::npos)
      << text;
  EXPECT_EQ(std::ranges::count(text, '\n'), 10);
  EXPECT_NE(report.Json().find("\"name\":\"a\",\"type\":\"Convolution\",\"int8\":true"),
            std::string::npos);
  EXPECT_EQ(report.outputs.size(), 1U);
  for (const QuantizedLayer& layer : report.layers) {
    EXPECT_GT(layer.snr_db, 25) << layer.name;
    EXPECT_LT(layer.relative_error, 0.05) << layer.name;
    EXPECT_FALSE(std::isnan(layer.accumulated_error)) << layer.name;
  }
}

class Int8Plans : public Quantize {
 protected:
  std::string Problem(const NetParameter& net, PlanOptions options = {.backward = false}) {
    std::vector<crema::Problem> warnings;
    try {
      MakePlan(net, {}, TestState(), test::TestRegistry(), options, &warnings);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }
};

TEST_F(Int8Plans, AreRefusedForTrainingAndWithoutRanges) {
  const NetParameter net = Run().net;
  EXPECT_NE(Problem(net, {.backward = true}).find("trained already"), std::string::npos);
  NetParameter bare = net_;
  bare.set_precision(INT8);
  EXPECT_NE(Problem(bare).find("calibration"), std::string::npos);
  bare.clear_precision();
  bare.mutable_layer(1)->set_precision(INT8);
  EXPECT_NE(Problem(bare).find("calibration"), std::string::npos);
}

TEST_F(Int8Plans, AreRefusedWithRangesThatContradictEachOther) {
  NetParameter net = Run().net;
  LayerParameter* conv = net.mutable_layer(1);
  conv->mutable_int8()->mutable_bottom(0)->set_max(123);
  EXPECT_NE(Problem(net).find("another range"), std::string::npos) << Problem(net);
  net.mutable_layer(0)->clear_int8();
  EXPECT_NE(Problem(net).find("no range"), std::string::npos) << Problem(net);
  conv->mutable_int8()->mutable_top(0)->set_max(-1);
  EXPECT_NE(Problem(net).find("above 0"), std::string::npos) << Problem(net);
}

// Ranges may be there of some layers only.
TEST_F(Int8Plans, TakeTheRangeOfAReluWhoseLeaderHasNone) {
  NetParameter net = Run().net;
  for (LayerParameter& layer : *net.mutable_layer()) {
    if (layer.name() == "b") layer.clear_int8();
    if (layer.name() == "rb") layer.mutable_int8()->clear_bottom();
  }
  EXPECT_EQ(Problem(net), "");
  EXPECT_LT(RelativeError(OutputOf(net_, 2), OutputOf(net, 2)), 0.05);
}

TEST_F(Int8Plans, ASplitWithARangeOfItsOwnPassesNoBytes) {
  NetParameter net = ParseNet(R"(precision: INT8
layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 64 dim: 32 dim: 32 } } }
layer { name: 'a' type: 'Convolution' bottom: 'x' top: 'a' convolution_param { num_output: 64
  kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }
layer { name: 's' type: 'Split' bottom: 'a' top: 's' top: 't' }
layer { name: 'b' type: 'Convolution' bottom: 's' top: 'b' convolution_param { num_output: 64
  kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }
layer { name: 'd' type: 'Convolution' bottom: 't' top: 'd' convolution_param { num_output: 64
  kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }
layer { name: 'sum' type: 'Eltwise' bottom: 'b' bottom: 'd' top: 'ip' })",
                              "net.prototxt")
                         .net;
  net_ = net;
  net_.clear_precision();
  weights_ = Weights::Make(*PlanOf(net_), 3);
  net = Run().net;
  for (LayerParameter& layer : *net.mutable_layer()) {
    Int8Ranges* ranges = layer.mutable_int8();
    if (layer.name() == "s") ranges->mutable_top(0)->set_max(2 * ranges->top(0).max());
    if (layer.name() == "b") ranges->mutable_bottom(0)->set_max(2 * ranges->bottom(0).max());
  }
  EXPECT_LT(RelativeError(OutputOf(net_, 2), OutputOf(net, 2)), 0.05);
}

TEST_F(Int8Plans, OfOtherExtentsAndWithoutPassesAreTheSame) {
  const NetParameter net = Run().net;
  const auto plan = PlanOf(net, {.threads = 2});
  Session session(plan, weights_, ExecContext(2, 1));
  session.FixWeights();
  // One image of two: what it gives does not depend on the other.
  FillInput(&session, "x", 77);
  session.Forward();
  const std::vector<float> both = test::ValuesOf(session.Data("ip"));
  session.Reshape("x", {1, 3, 32, 32});
  session.Forward();
  const std::vector<float> one = test::ValuesOf(session.Data("ip"));
  EXPECT_EQ(one, std::vector<float>(both.begin(), both.begin() + 80));
  // In single precision: without formats there are no bytes but in inner products.
  const auto plain = PlanOf(net, {.optimize = false});
  EXPECT_TRUE(std::ranges::all_of(
      plain->values, [](const PlannedValue& v) { return v.spec.format == MemoryFormat::kPlain; }));
}

}  // namespace
}  // namespace crema
