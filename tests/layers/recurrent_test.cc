// RNN, LSTM and GRU against plain loops that cut every stream into its sequences and run each of
// them alone, without `cont`; and the states that a layer carries from batch to batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "layers/recurrent/recurrent_state.h"
#include "support/layer_run.h"
#include "support/net.h"

namespace crema::test {
namespace {

constexpr int64_t kSteps = 6, kStreams = 3, kFeatures = 2, kStatics = 2, kHidden = 3;

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Blobs of one direction, in the order of the caffemodel; `has_static` shifts the later ones.
struct Naive {
  std::string type;
  bool reset_after = true;
  std::vector<Values> blobs;
  bool has_static = false;

  // W x + the bias `b` (none below 0), rows [first, first + kHidden).
  Values Product(size_t w, int b, int64_t first, const Values& x) const {
    Values y(kHidden, 0.0);
    const auto columns = static_cast<int64_t>(x.size());
    for (int64_t r = 0; r < kHidden; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        y[static_cast<size_t>(r)] +=
            blobs[w][static_cast<size_t>((first + r) * columns + c)] * x[static_cast<size_t>(c)];
      }
      if (b >= 0)
        y[static_cast<size_t>(r)] += blobs[static_cast<size_t>(b)][static_cast<size_t>(first + r)];
    }
    return y;
  }
  size_t hidden_blob() const { return has_static ? 3 : 2; }
  // Gate `g` of what comes from x and the static input.
  Values FromX(int64_t g, const Values& x, const Values& s) const {
    Values y = Product(0, 1, g * kHidden, x);
    if (!has_static) return y;
    const Values more = Product(2, -1, g * kHidden, s);
    for (size_t d = 0; d < y.size(); ++d) y[d] += more[d];
    return y;
  }

  // One sequence from zeros; the outputs of its steps.
  std::vector<Values> Run(const std::vector<Values>& xs, const Values& s) const {
    Values h(kHidden, 0.0), c(kHidden, 0.0);
    std::vector<Values> outputs;
    for (const Values& x : xs) outputs.push_back(Step(x, s, &h, &c));
    return outputs;
  }

  Values Step(const Values& x, const Values& s, Values* h, Values* c) const {
    const size_t w = hidden_blob();
    const Values before = *h;
    std::vector<Values> a, u;
    const int64_t gates = type == "LSTM" ? 4 : type == "GRU" ? 3 : 1;
    const int bias = type == "GRU" && reset_after ? static_cast<int>(w) + 1 : -1;
    for (int64_t g = 0; g < gates; ++g) {
      a.push_back(FromX(g, x, s));
      u.push_back(Product(w, bias, g * kHidden, before));
    }
    for (size_t d = 0; d < h->size(); ++d) {
      if (type == "RNN") (*h)[d] = std::tanh(a[0][d] + u[0][d]);
      if (type == "LSTM") {
        (*c)[d] = Sigmoid(a[1][d] + u[1][d]) * (*c)[d] +
                  Sigmoid(a[0][d] + u[0][d]) * std::tanh(a[3][d] + u[3][d]);
        (*h)[d] = Sigmoid(a[2][d] + u[2][d]) * std::tanh((*c)[d]);
      }
    }
    if (type == "GRU") {
      Values reset = before;
      for (size_t d = 0; d < h->size(); ++d) reset[d] *= Sigmoid(a[0][d] + u[0][d]);
      const Values product = Product(w, -1, 2 * kHidden, reset);
      for (size_t d = 0; d < h->size(); ++d) {
        const double r = Sigmoid(a[0][d] + u[0][d]), z = Sigmoid(a[1][d] + u[1][d]);
        const double n = std::tanh(a[2][d] + (reset_after ? r * u[2][d] : product[d]));
        (*h)[d] = (1 - z) * n + z * before[d];
      }
    }
    if (type != "RNN") return *h;
    Values out = Product(w + 1, static_cast<int>(w) + 2, 0, *h);
    for (double& o : out) o = std::tanh(o);
    return out;
  }
};

// y[t, n, d] of one direction.
Values NaiveOutputs(const Naive& net, const CaseValues& values, bool reverse) {
  const Values& x = values.inputs[0];
  const Values& cont = values.inputs[1];
  const auto row = [](const Values& from, int64_t r, int64_t width) {
    return Values(from.begin() + r * width, from.begin() + (r + 1) * width);
  };
  Values y(static_cast<size_t>(kSteps * kStreams * kHidden));
  for (int64_t n = 0; n < kStreams; ++n) {
    const Values s = net.has_static ? row(values.inputs[2], n, kStatics) : Values();
    for (int64_t first = 0; first < kSteps;) {
      int64_t last = first + 1;
      while (last < kSteps && cont[static_cast<size_t>(last * kStreams + n)] != 0) ++last;
      std::vector<int64_t> steps;
      for (int64_t t = first; t < last; ++t) steps.push_back(t);
      if (reverse) std::ranges::reverse(steps);
      std::vector<Values> xs;
      for (int64_t t : steps) xs.push_back(row(x, t * kStreams + n, kFeatures));
      const std::vector<Values> out = net.Run(xs, s);
      for (size_t k = 0; k < steps.size(); ++k) {
        std::ranges::copy(out[k], y.begin() + (steps[k] * kStreams + n) * kHidden);
      }
      first = last;
    }
  }
  return y;
}

struct Form {
  std::string type;
  std::string fields;
  bool has_static;
};

class RecurrentForm : public testing::TestWithParam<Form> {};

TEST_P(RecurrentForm, IsWhatPlainLoopsCompute) {
  const auto& [type, fields, has_static] = GetParam();
  LayerSample sample{
      .name = StrCat(type, fields, has_static),
      .prototxt = StrCat("recurrent_param { num_output: ", kHidden, " ", fields, "}"),
      .inputs = {{.shape = {kSteps, kStreams, kFeatures}},
                 {.shape = {kSteps, kStreams}, .low = 0, .high = 1, .integer = true}}};
  if (has_static) sample.inputs.push_back({.shape = {kStreams, kStatics}});
  const LayerCase layer_case(*TestRegistry().Find(type), sample, DType::kF64);
  const CaseValues values = DrawValues(layer_case);
  const RunResult result = RunLayer(layer_case, values, {.threads = 2});
  const bool both = fields.find("BIDIRECTIONAL") != std::string::npos;
  const bool reverse = fields.find("REVERSE") != std::string::npos;
  const size_t each = values.parameters.size() / (both ? 2 : 1);
  const int64_t width = kHidden * (both ? 2 : 1);
  for (int direction = 0; direction < (both ? 2 : 1); ++direction) {
    const auto begin = values.parameters.begin() + static_cast<int64_t>(each) * direction;
    const Naive net{.type = type,
                    .reset_after = fields.find("reset_after: false") == std::string::npos,
                    .blobs = {begin, begin + static_cast<int64_t>(each)},
                    .has_static = has_static};
    const Values expected = NaiveOutputs(net, values, reverse || direction == 1);
    for (int64_t i = 0; i < kSteps * kStreams * kHidden; ++i) {
      const int64_t at = i / kHidden * width + direction * kHidden + i % kHidden;
      ASSERT_NEAR(result.outputs[0][static_cast<size_t>(at)], expected[static_cast<size_t>(i)],
                  1e-12)
          << "direction " << direction << " at " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, RecurrentForm,
    testing::Values(Form{"RNN", "", false}, Form{"RNN", "", true},
                    Form{"RNN", "direction: BIDIRECTIONAL ", true}, Form{"LSTM", "", false},
                    Form{"LSTM", "", true}, Form{"LSTM", "direction: REVERSE ", false},
                    Form{"LSTM", "direction: BIDIRECTIONAL ", true}, Form{"GRU", "", false},
                    Form{"GRU", "", true}, Form{"GRU", "reset_after: false ", true},
                    Form{"GRU", "direction: REVERSE ", false},
                    Form{"GRU", "reset_after: false direction: BIDIRECTIONAL ", false}),
    [](const auto& form) { return StrCat(form.param.type, "_", form.index); });

std::string CarryNet(const std::string& type, int64_t steps, int64_t streams) {
  return StrCat("layer { name: \"x\" type: \"Input\" top: \"x\" input_param { shape { dim: ", steps,
                " dim: ", streams, " dim: 2 } } }\n",
                "layer { name: \"cont\" type: \"Input\" top: \"cont\" input_param { shape { dim: ",
                steps, " dim: ", streams, " } } }\n", "layer { name: \"r\" type: \"", type,
                "\" bottom: \"x\" bottom: \"cont\" top: \"y\" recurrent_param { num_output: 3 ",
                "weight_filler { type: \"gaussian\" std: 0.5 } } }\n");
}

Session MakeSession(const std::string& text) {
  const auto plan = PlanText(text);
  return Session(plan, Weights::Make(*plan, 3), ExecContext(1));
}

void Set(Session& session, const std::string& blob, std::vector<float> values) {
  std::ranges::copy(values, session.MutableData(blob).span<float>().begin());
}

std::vector<float> DrawFloats(size_t count, size_t from) {
  std::vector<float> values;
  for (size_t i = from; i < from + count; ++i) values.push_back(std::sin(static_cast<float>(i)));
  return values;
}

class Carry : public testing::TestWithParam<std::string> {};

TEST_P(Carry, TwoBatchesAreOneOfTwiceTheSteps) {
  Session whole = MakeSession(CarryNet(GetParam(), 4, 2));
  Set(whole, "x", DrawFloats(16, 0));
  Set(whole, "cont", {0, 0, 1, 1, 1, 0, 1, 1});
  whole.Forward();
  const std::vector<float> expected = ValuesOf(whole.Data("y"));
  Session half = MakeSession(CarryNet(GetParam(), 2, 2));
  std::vector<float> got;
  for (size_t part = 0; part < 2; ++part) {
    Set(half, "x", DrawFloats(8, 8 * part));
    Set(half, "cont", part == 0 ? std::vector<float>{0, 0, 1, 1} : std::vector<float>{1, 0, 1, 1});
    half.Forward();
    const std::vector<float> y = ValuesOf(half.Data("y"));
    got.insert(got.end(), y.begin(), y.end());
  }
  EXPECT_EQ(got, expected);
}

TEST_P(Carry, SnapshotsHoldTheState) {
  Session first = MakeSession(CarryNet(GetParam(), 2, 2));
  Set(first, "x", DrawFloats(8, 0));
  Set(first, "cont", {1, 1, 1, 1});
  first.Forward();
  SolverState state;
  first.SaveState("train", &state);
  Session second = MakeSession(CarryNet(GetParam(), 2, 2));
  second.RestoreState("train", state);
  Set(second, "x", DrawFloats(8, 0));
  Set(second, "cont", {1, 1, 1, 1});
  first.Forward();
  second.Forward();
  EXPECT_EQ(ValuesOf(second.Data("y")), ValuesOf(first.Data("y")));
}

TEST_P(Carry, ASnapshotOfAnotherSizeIsRefused) {
  Session session = MakeSession(CarryNet(GetParam(), 2, 2));
  SolverState state;
  LayerState* saved = state.add_layer_state();
  saved->set_net("train");
  saved->set_layer("r");
  saved->add_counters(2);
  saved->add_counters(0);
  EXPECT_THROW(session.RestoreState("train", state), Error);
}

TEST_P(Carry, AnotherNumberOfStreamsMustBeginAnew) {
  Session session = MakeSession(CarryNet(GetParam(), 2, 3));
  session.Forward();
  session.Reshape("x", Shape{2, 2, 2});
  session.Reshape("cont", Shape{2, 2});
  Set(session, "cont", {0, 1, 1, 1});
  try {
    session.Forward();
    FAIL() << "it is not known which streams go on";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("2 streams and the last one had 3"), std::string::npos)
        << error.what();
  }
  Set(session, "cont", {0, 0, 1, 1});
  session.Forward();
}

TEST_P(Carry, ContOfZeroForgetsANaN) {
  Session session = MakeSession(CarryNet(GetParam(), 1, 1));
  Set(session, "cont", {0});
  Set(session, "x", {std::numeric_limits<float>::quiet_NaN(), 0});
  session.Forward();
  Set(session, "x", {1, 0});
  session.Forward();
  for (float y : ValuesOf(session.Data("y"))) EXPECT_TRUE(std::isfinite(y));
}

INSTANTIATE_TEST_SUITE_P(All, Carry, testing::Values("RNN", "LSTM", "GRU"),
                         [](const auto& type) { return type.param; });

TEST(LSTMUnit, IsOneStepByHand) {
  LayerSample sample{.name = "hand",
                     .prototxt = "",
                     .inputs = {{.shape = {1, 1, 1}}, {.shape = {1, 1, 4}}, {.shape = {1, 1}}},
                     .outputs = 2};
  const LayerCase layer_case(*TestRegistry().Find("LSTMUnit"), sample, DType::kF64);
  const CaseValues values{.inputs = {{2}, {0, std::log(3.0), 0, 100}, {0.5}},
                          .parameters = {},
                          .output_grads = {{1}, {0}}};
  const RunResult result = RunLayer(layer_case, values, {.backward = true});
  EXPECT_NEAR(result.outputs[0][0], 0.75 * 0.5 * 2 + 0.5, 1e-12);  // f cont c' + i g
  EXPECT_NEAR(result.outputs[1][0], 0.5 * std::tanh(1.25), 1e-12);
  EXPECT_NEAR(result.input_grads[0][0], 0.75 * 0.5, 1e-12);
  EXPECT_NEAR(result.input_grads[1][1], 0.5 * 2 * 0.75 * 0.25, 1e-12);
}

}  // namespace
}  // namespace crema::test
