// A reshaped session computes the same bits as a plan made for the new shapes.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "support/error_text.h"
#include "support/net.h"

namespace crema {
namespace {

using test::ErrorOf;
using test::FillInput;
using test::PlanText;
using test::ValuesOf;

using Dims = std::vector<int64_t>;

std::string InputLayer(const std::string& name, const Dims& dims) {
  std::string text = StrCat("layer { name: \"", name, "\" type: \"Input\" top: \"", name,
                            "\" input_param { shape {");
  for (int64_t dim : dims) text += StrCat(" dim: ", dim);
  return text + " } } }\n";
}

struct NetInput {
  std::string name;
  Dims large;
  Dims small;
};

struct ResizableNet {
  std::string name;
  std::vector<NetInput> inputs;
  std::string layers;  // ends in the blob "y"

  friend std::ostream& operator<<(std::ostream& out, const ResizableNet& net) {
    return out << net.name;
  }

  std::string Text(bool large) const {
    std::string text = "force_backward: true\n";
    for (const NetInput& input : inputs) {
      text += InputLayer(input.name, large ? input.large : input.small);
    }
    return text + layers +
           "layer { name: \"loss\" type: \"Reduction\" bottom: \"y\" top: \"loss\" loss_weight: 1\n"
           "  reduction_param { operation: SUMSQ } }\n";
  }
};

std::string Recurrent(const std::string& type, const std::string& fields) {
  return StrCat("layer { name: \"r\" type: \"", type, "\" bottom: \"x\" bottom: \"cont\" ",
                "top: \"h\" recurrent_param { num_output: 9 ", fields,
                " weight_filler { type: \"gaussian\" std: 0.3 } } }\n",
                "layer { name: \"ip\" type: \"InnerProduct\" bottom: \"h\" top: \"y\"\n",
                "  inner_product_param { num_output: 4 axis: 2 weight_filler { type: \"xavier\" } ",
                "} }\n");
}

const char* kConvolutions = R"(
layer { name: "conv" type: "Convolution" bottom: "x" top: "conv"
  convolution_param { num_output: 6 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool"
  pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "lrn" type: "LRN" bottom: "pool" top: "lrn" }
layer { name: "a" type: "Sigmoid" bottom: "lrn" top: "a" }
layer { name: "b" type: "TanH" bottom: "lrn" top: "b" }
layer { name: "cat" type: "Concat" bottom: "a" bottom: "b" top: "cat" }
layer { name: "conv2" type: "Convolution" bottom: "cat" top: "y"
  convolution_param { num_output: 5 kernel_size: 3 stride: 2 weight_filler { type: "xavier" } } }
)";

const char* kClassifier = R"(
layer { name: "conv" type: "Convolution" bottom: "x" top: "conv"
  convolution_param { num_output: 6 kernel_size: 5 weight_filler { type: "xavier" } } }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool"
  pooling_param { pool: AVE kernel_size: 3 stride: 2 } }
layer { name: "flat" type: "Flatten" bottom: "pool" top: "flat" }
layer { name: "ip" type: "InnerProduct" bottom: "flat" top: "ip"
  inner_product_param { num_output: 11 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "ip" top: "ip" }
layer { name: "twice" type: "Eltwise" bottom: "ip" bottom: "ip" top: "twice" }
layer { name: "prob" type: "Softmax" bottom: "twice" top: "y" }
)";

const char* kAttention = R"(
layer { name: "qkv" type: "InnerProduct" bottom: "x" top: "qkv"
  inner_product_param { num_output: 24 axis: 2 weight_filler { type: "xavier" } } }
layer { name: "attention" type: "Attention" bottom: "qkv" top: "a"
  attention_param { num_heads: 2 causal: true } }
layer { name: "out" type: "InnerProduct" bottom: "a" top: "y"
  inner_product_param { num_output: 6 axis: 2 weight_filler { type: "xavier" } } }
)";

std::vector<ResizableNet> Nets() {
  const auto sequences = [](Dims large, Dims small) {
    return std::vector<NetInput>{{"x", {large[0], large[1], 5}, {small[0], small[1], 5}},
                                 {"cont", large, small}};
  };
  return {
      {"lstm_steps", sequences({7, 4}, {3, 4}), Recurrent("LSTM", "")},
      {"lstm_streams", sequences({7, 4}, {7, 1}), Recurrent("LSTM", "")},
      {"lstm_more_steps_of_fewer_streams", sequences({4, 6}, {8, 2}), Recurrent("LSTM", "")},
      {"lstm_bidirectional", sequences({7, 4}, {2, 3}),
       Recurrent("LSTM", "direction: BIDIRECTIONAL")},
      {"gru", sequences({7, 4}, {5, 2}), Recurrent("GRU", "")},
      {"gru_reset_before", sequences({7, 4}, {5, 2}), Recurrent("GRU", "reset_after: false")},
      {"rnn", sequences({7, 4}, {5, 2}), Recurrent("RNN", "")},
      {"images", {{"x", {4, 3, 24, 20}, {4, 3, 17, 12}}}, kConvolutions},
      {"batch_of_images", {{"x", {8, 3, 24, 20}, {3, 3, 24, 20}}}, kConvolutions},
      {"classifier", {{"x", {8, 3, 16, 16}, {1, 3, 16, 16}}}, kClassifier},
      {"attention", {{"x", {3, 8, 10}, {2, 5, 10}}}, kAttention},
  };
}

struct ReshapeOutcome {
  double loss = 0;
  std::vector<std::vector<float>> values;
};

// Every sequence begins at step 0, so that earlier batches have no effect.
ReshapeOutcome RunNet(Session* session, const ResizableNet& net) {
  for (const NetInput& input : net.inputs) {
    FillInput(session, input.name, 5);
    if (input.name != "cont") continue;
    const TensorView cont = session->MutableData("cont");
    for (int64_t i = 0; i < cont.count(); ++i) {
      cont.data<float>()[i] = i < cont.shape()[1] || i % 5 == 0 ? 0.0F : 1.0F;
    }
  }
  ReshapeOutcome outcome;
  outcome.loss = session->Forward();
  outcome.values.push_back(ValuesOf(session->Data("y")));  // backward may use its memory
  session->ZeroParameterGradients();
  session->Backward();
  outcome.values.push_back(ValuesOf(session->Gradient("x")));
  for (size_t s = 0; s < session->plan().parameters.size(); ++s) {
    outcome.values.push_back(ValuesOf(session->ParameterGradient(s)));
  }
  return outcome;
}

Session MakeSession(const std::string& text, int threads, bool optimize = true) {
  const auto plan = PlanText(text, TRAIN, {.threads = threads, .optimize = optimize});
  return Session(plan, Weights::Make(*plan, 7), ExecContext(threads, 7));
}

void ReshapeAll(Session* session, const ResizableNet& net, bool large) {
  for (const NetInput& input : net.inputs) {
    session->Reshape(input.name, Shape(std::span(large ? input.large : input.small)));
  }
}

void ExpectSameBits(const ReshapeOutcome& a, const ReshapeOutcome& b) {
  EXPECT_NE(a.loss, 0);
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.values, b.values);
}

class SessionReshape : public testing::TestWithParam<ResizableNet> {};

TEST_P(SessionReshape, IsAFreshPlanBitForBit) {
  for (int threads : {1, 2}) {
    Session fresh = MakeSession(GetParam().Text(false), threads);
    const ReshapeOutcome expected = RunNet(&fresh, GetParam());
    Session session = MakeSession(GetParam().Text(true), threads);
    ReshapeAll(&session, GetParam(), false);
    ExpectSameBits(RunNet(&session, GetParam()), expected);
    ExpectSameBits(RunNet(&session, GetParam()), expected);
  }
}

TEST_P(SessionReshape, GoesThereAndBack) {
  Session session = MakeSession(GetParam().Text(true), 2);
  const ReshapeOutcome large = RunNet(&session, GetParam());
  ReshapeAll(&session, GetParam(), false);
  const ReshapeOutcome small = RunNet(&session, GetParam());
  ReshapeAll(&session, GetParam(), true);
  ExpectSameBits(RunNet(&session, GetParam()), large);
  ReshapeAll(&session, GetParam(), false);
  ExpectSameBits(RunNet(&session, GetParam()), small);
}

TEST_P(SessionReshape, MoreThanPlannedNamesTheLimit) {
  Session session = MakeSession(GetParam().Text(true), 1);
  const ReshapeOutcome before = RunNet(&session, GetParam());
  const NetInput& x = GetParam().inputs.front();
  const Shape planned(std::span(x.large));
  try {
    session.Reshape("x", planned.With(0, planned[0] * 2));
    FAIL() << "more elements than planned were taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    const std::string limit =
        StrCat("planned for at most ", planned.count(), " elements (", ToString(planned), ")");
    EXPECT_NE(std::string(error.what()).find(limit), std::string::npos) << error.what();
  }
  EXPECT_EQ(session.MutableData("x").shape(), planned);
  ExpectSameBits(RunNet(&session, GetParam()), before);
}

void ExpectNear(const ReshapeOutcome& a, const ReshapeOutcome& b) {
  EXPECT_NEAR(a.loss, b.loss, 1e-4 * b.loss);
  for (size_t i = 0; i < b.values.size(); ++i) {
    ASSERT_EQ(a.values[i].size(), b.values[i].size());
    for (size_t k = 0; k < b.values[i].size(); ++k) {
      EXPECT_NEAR(a.values[i][k], b.values[i][k], 1e-4 * (1 + std::abs(b.values[i][k])));
    }
  }
}

// The implementations are those of the plan for the smaller shapes, so bits may differ.
TEST_P(SessionReshape, MoreThanPlannedIsAFreshPlanIfBlobsShareNoMemory) {
  Session planned = MakeSession(GetParam().Text(true), 2, false);
  const ReshapeOutcome large = RunNet(&planned, GetParam());
  Session session = MakeSession(GetParam().Text(false), 2, false);
  const ReshapeOutcome small = RunNet(&session, GetParam());
  EXPECT_EQ(session.grown(), nullptr);
  for (int round = 0; round < 2; ++round) {
    ReshapeAll(&session, GetParam(), true);
    ExpectNear(RunNet(&session, GetParam()), large);
    EXPECT_NE(session.grown(), nullptr);
    ReshapeAll(&session, GetParam(), false);
    ExpectNear(RunNet(&session, GetParam()), small);
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, SessionReshape, testing::ValuesIn(Nets()),
                         [](const auto& net) { return net.param.name; });

TEST(SessionReshapeErrors, UnknownBlobsAndBlobsOfLayers) {
  Session session = MakeSession(Nets()[0].Text(true), 1);
  EXPECT_NE(ErrorOf([&] { session.Reshape("z", Shape{1}); }).find("no blob 'z'"),
            std::string::npos);
  EXPECT_NE(ErrorOf([&] { session.Reshape("h", Shape{1}); }).find("only inputs of the net"),
            std::string::npos);
}

TEST(SessionReshapeErrors, InputsThatDoNotFitTogetherAreMendedByReshapingAgain) {
  const ResizableNet net = Nets()[0];
  Session session = MakeSession(net.Text(true), 1);
  const ReshapeOutcome before = RunNet(&session, net);
  session.Reshape("x", Shape{3, 4, 5});
  const std::string error = ErrorOf([&] { session.Forward(); });
  EXPECT_NE(error.find("layer \"r\""), std::string::npos) << error;
  EXPECT_NE(error.find("cont must be steps x streams, as x: 3x4, but it is 7x4"), std::string::npos)
      << error;
  session.Reshape("x", Shape{7, 4, 5});
  ExpectSameBits(RunNet(&session, net), before);
}

TEST(SessionReshapeErrors, ParametersKeepTheirShapes) {
  Session session = MakeSession(Nets()[9].Text(true), 1);
  session.Reshape("x", Shape{8, 3, 12, 12});
  const std::string error = ErrorOf([&] { session.Forward(); });
  EXPECT_NE(error.find("would need another shape"), std::string::npos) << error;
}

class ForTwo final : public FunctionImplementation {
 public:
  ForTwo() : FunctionImplementation({.name = "two"}) {}
  std::unique_ptr<ImplementationState> MakeState(const OpDesc& op) const override {
    if (op.context.inputs[0].shape[0] == 2) return nullptr;
    Fail(ErrorCode::kUnsupported, "takes two implementations");
  }
};

// After an error with new shapes, results must not appear valid with the old ones.
TEST(SessionReshapeErrors, OldShapesStillWorkIfNewOnesFail) {
  Registry registry = BuiltinRegistry();
  registry.AddImplementation("AbsVal", std::make_shared<ForTwo>());
  const NetFile file = ParseNet(
      InputLayer("x", {2, 3}) + "layer { name: \"a\" type: \"AbsVal\" bottom: \"x\" top: \"y\" }\n",
      "net.prototxt");
  std::vector<Problem> warnings;
  const auto plan = MakePlan(file.net, file.source, {}, registry, {.backward = false}, &warnings);
  Session session(plan, Weights::Make(*plan, 1), ExecContext(1, 1));
  session.Forward();
  session.Reshape("x", Shape{1, 3});
  const std::string error = ErrorOf([&] { session.Forward(); });
  EXPECT_NE(error.find("takes two implementations"), std::string::npos) << error;
  session.Reshape("x", Shape{2, 3});
  session.Forward();
  EXPECT_EQ(session.Data("y").shape(), (Shape{2, 3}));
}

TEST(SessionReshapeErrors, AnOutputThatWouldGrowNamesTheLimit) {
  // As many elements as planned, but a window around each.
  const std::string text = InputLayer("x", {1, 1, 2, 32}) +
                           "layer { name: \"pool\" type: \"Pooling\" bottom: \"x\" top: \"y\"\n"
                           "  pooling_param { kernel_size: 2 stride: 2 } }\n";
  Session session = MakeSession(text, 1);
  session.Forward();
  session.Reshape("x", Shape{64, 1, 1, 1});
  const std::string error = ErrorOf([&] { session.Forward(); });
  EXPECT_NE(error.find("'y' would be 64x1x1x1, but the net was planned for at most 16 elements "
                       "(1x1x1x16)"),
            std::string::npos)
      << error;
  session.Reshape("x", Shape{1, 1, 2, 32});
  EXPECT_EQ(ErrorOf([&] { session.Forward(); }), "");
}

}  // namespace
}  // namespace crema
