// Layers with `recompute` run forward again in the backward pass: same bits, less memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "runtime/profiler.h"
#include "runtime/session.h"
#include "support/net.h"

namespace crema {
namespace {

using test::FillInput;
using test::PlanText;
using test::ValuesOf;

// Draws nets of a few layers: branches, in-place chains, views, masks, statistics, random draws.
class RecomputeNetMaker {
 public:
  explicit RecomputeNetMaker(uint64_t seed) : random_(seed, HashName("net")) {}

  std::string Make() {
    text_ = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 3 dim: 2 dim: 8 dim: 8 } } }
layer { name: "label" type: "DummyData" top: "label"
  dummy_data_param { shape { dim: 3 } data_filler { value: 2 } } }
)";
    std::string blob = Convolution("x");
    const uint32_t steps = 3 + Draw(7);
    for (uint32_t i = 0; i < steps; ++i) blob = Step(blob);
    text_ += StrCat(
        "layer { name: 'ip' type: 'InnerProduct' bottom: '", blob,
        "' top: 'ip' inner_product_param { num_output: 4 weight_filler { type: 'xavier' } } }\n"
        "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }");
    return text_;
  }

 private:
  uint32_t Draw(uint32_t below) { return random_.Below(next_++, below); }

  std::string Step(const std::string& blob) {
    switch (Draw(10)) {
      case 0:
        return Convolution(blob);
      case 1:
        return Branch(blob);
      case 2:
        return Views(blob);
      case 3:
        return Layer("Pooling", blob, Draw(2) == 0, "pooling_param { kernel_size: 3 pad: 1 }");
      case 4:
        return Layer("BatchNorm", blob, Draw(2) == 0);
      case 5:
        return Layer("Scale", blob, Draw(2) == 0, "scale_param { bias_term: true }");
      case 6:
        return Layer("Dropout", blob, Draw(2) == 0);
      case 7:
        return Layer("LRN", blob, false);
      default:
        return Layer(Draw(2) == 0 ? "ReLU" : Draw(2) == 0 ? "TanH" : "ELU", blob, Draw(3) > 0);
    }
  }

  std::string Convolution(const std::string& blob) {
    return Layer("Convolution", blob, false,
                 "convolution_param { num_output: 4 kernel_size: 3 pad: 1 "
                 "weight_filler { type: 'xavier' } }");
  }

  std::string Branch(const std::string& blob) {
    const std::string a = Layer("Sigmoid", blob, false);
    const std::string b = Layer("BatchNorm", Convolution(blob), true);
    const char* operation[] = {"SUM", "PROD", "MAX"};
    return Join("Eltwise", {Draw(2) == 0 ? blob : a, b},
                StrCat("eltwise_param { operation: ", operation[Draw(3)], " }"));
  }

  std::string Views(const std::string& blob) {
    const std::string flat =
        Layer("Reshape", blob, false, "reshape_param { shape { dim: 0 dim: -1 } }");
    const std::string act = Layer("TanH", flat, Draw(2) == 0);
    return Layer("Reshape", act, false, "reshape_param { shape { dim: 0 dim: 4 dim: 8 dim: 8 } }");
  }

  std::string Layer(const std::string& type, const std::string& bottom, bool in_place,
                    const std::string& fields = "") {
    return Add(type, {bottom}, in_place ? bottom : StrCat("b", layers_), fields);
  }
  std::string Join(const std::string& type, const std::vector<std::string>& bottoms,
                   const std::string& fields) {
    return Add(type, bottoms, StrCat("b", layers_), fields);
  }
  std::string Add(const std::string& type, const std::vector<std::string>& bottoms,
                  const std::string& top, const std::string& fields) {
    text_ += StrCat("layer { name: 'l", layers_++, "' type: '", type, "' top: '", top, "' ");
    for (const std::string& bottom : bottoms) text_ += StrCat("bottom: '", bottom, "' ");
    text_ += StrCat(fields, " }\n");
    return top;
  }

  RandomStream random_;
  uint64_t next_ = 0;
  int layers_ = 0;
  std::string text_;
};

// The text with `recompute` in those layers of a drawn net that `chosen` names by number.
std::string WithRecompute(const std::string& text, const std::function<bool(int)>& chosen) {
  std::string out;
  for (const std::string& line : Split(text, '\n')) {
    out += line;
    if (line.starts_with("layer { name: 'l") && line[16] != 'o' &&
        chosen(std::atoi(line.c_str() + 16))) {
      out.insert(out.rfind('}'), "recompute: true ");
    }
    out += '\n';
  }
  return out;
}

struct RecomputeOutcome {
  std::vector<double> losses;
  std::vector<std::vector<float>> numbers;  // of each iteration: gradients; at the end: weights

  friend bool operator==(const RecomputeOutcome&, const RecomputeOutcome&) = default;
};

// Three iterations of plain gradient descent.
RecomputeOutcome Train(const std::string& text, const PlanOptions& options = {}) {
  const auto plan = PlanText(text, TRAIN, options);
  const std::shared_ptr<Weights> weights = Weights::Make(*plan, 3);
  Session session(plan, weights, ExecContext(options.threads, 3));
  RecomputeOutcome outcome;
  for (uint64_t i = 0; i < 3; ++i) {
    FillInput(&session, "x", i);
    outcome.losses.push_back(session.Forward());
    session.ZeroParameterGradients();
    session.Backward();
    for (size_t s = 0; s < plan->parameters.size(); ++s) {
      if (plan->parameters[s].statistic) continue;
      const std::vector<float> gradient = ValuesOf(session.ParameterGradient(s));
      const std::span<float> values = weights->blob(s).span<float>();
      for (size_t k = 0; k < values.size(); ++k) values[k] -= 0.1F * gradient[k];
      outcome.numbers.push_back(gradient);
    }
  }
  for (size_t s = 0; s < plan->parameters.size(); ++s) {
    outcome.numbers.push_back(ValuesOf(weights->blob(s)));
  }
  return outcome;
}

TEST(Recompute, RandomNetsGiveTheSameBits) {
  int64_t smaller = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const std::string text = RecomputeNetMaker(seed).Make();
    const RecomputeOutcome expected = Train(text, {.threads = 2});
    const RandomStream coin(seed, HashName("coin"));
    for (uint32_t share : {1, 2, 4}) {
      const std::string marked = WithRecompute(text, [&](int layer) {
        return coin.Below(100 * share + static_cast<uint64_t>(layer), 4) < share;
      });
      ASSERT_EQ(Train(marked, {.threads = 2}), expected) << marked;
      smaller += PlanText(marked)->arena_bytes < PlanText(text)->arena_bytes ? 1 : 0;
    }
  }
  EXPECT_GT(smaller, 100);
}

const char* kChain = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 dim: 16 dim: 16 } } }
layer { name: "conv" type: "Convolution" bottom: "x" top: "conv"
  convolution_param { num_output: 8 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "bn" recompute: true }
layer { name: "scale" type: "Scale" bottom: "bn" top: "scale" recompute: true
  scale_param { bias_term: true } }
layer { name: "drop" type: "Dropout" bottom: "scale" top: "drop" recompute: true }
layer { name: "act" type: "TanH" bottom: "drop" top: "act" recompute: true }
layer { name: "conv2" type: "Convolution" bottom: "act" top: "conv2"
  convolution_param { num_output: 2 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "Reduction" bottom: "conv2" top: "loss" loss_weight: 1
  reduction_param { operation: SUMSQ } }
)";

std::string Without(std::string text) {
  const std::string flag = "recompute: true";
  for (size_t at; (at = text.find(flag)) != std::string::npos;) text.erase(at, flag.size());
  return text;
}

TEST(Recompute, StatisticsAreUpdatedOnce) { EXPECT_EQ(Train(kChain), Train(Without(kChain))); }

TEST(Recompute, AMemoryBudgetGivesTheSameBits) {
  std::string text = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 24 dim: 8 dim: 32 dim: 32 } } }
)";
  std::string bottom = "x";
  for (int i = 0; i < 6; ++i) {
    const std::string top = StrCat("c", i);
    text += StrCat("layer { name: '", top, "' type: 'Convolution' bottom: '", bottom, "' top: '",
                   top, "' convolution_param { num_output: 16 kernel_size: 3 pad: 1 ",
                   "weight_filler { type: 'xavier' } } }\n");
    for (const char* type : {"BatchNorm", "Dropout", "TanH"}) {
      text += StrCat("layer { name: '", top, type, "' type: '", type, "' bottom: '", top,
                     "' top: '", top, "' }\n");
    }
    bottom = top;
  }
  text += "layer { name: 'loss' type: 'Reduction' bottom: 'c5' top: 'loss' loss_weight: 1 }";
  const RecomputeOutcome expected = Train(text);
  const int64_t all = PlanText(text)->arena_bytes >> 20;
  for (int64_t budget : {all, all * 3 / 4, all * 6 / 10}) {
    const std::string bounded = StrCat("memory_budget: ", budget, "\n", text);
    EXPECT_LE(PlanText(bounded)->arena_bytes, budget << 20);
    EXPECT_EQ(Train(bounded), expected) << budget;
  }
}

// Notes what runs in the backward pass.
class RecomputeListener final : public LayerObserver {
 public:
  explicit RecomputeListener(const Plan& plan) : plan_(plan) {}
  void BeforeBackward(size_t layer, const BackwardArgs&) override { Note("", layer); }
  void BeforeRecompute(size_t layer, const ForwardArgs&) override { Note("+", layer); }
  void AfterRecompute(size_t, const ForwardArgs& args) override {
    saved += args.saved.empty() ? 0 : 1;
  }

  std::string heard;
  int saved = 0;

 private:
  void Note(const char* what, size_t layer) { heard += what + plan_.layers[layer].name() + " "; }
  const Plan& plan_;
};

TEST(Recompute, ObserversHearOfItBeforeTheFirstBackwardThatReadsIt) {
  const auto plan = PlanText(kChain);
  Session session(plan, Weights::Make(*plan, 1), ExecContext(1));
  RecomputeListener listener(*plan);
  session.set_observer(&listener);
  session.Forward();
  EXPECT_EQ(listener.heard, "");
  session.Backward();
  EXPECT_EQ(listener.heard, "loss +bn +scale +drop +act conv2 act drop scale bn conv ");
  EXPECT_EQ(listener.saved, 2);  // BatchNorm and Dropout
}

TEST(Recompute, TheProfileShowsIt) {
  const auto plan = PlanText(kChain);
  Session session(plan, Weights::Make(*plan, 1), ExecContext(1));
  const Profile profile = ProfileSession(&session, {.iterations = 2, .warmup = 1});
  std::set<std::string> again;
  for (const LayerProfile& layer : profile.layers) {
    if (layer.recompute.runs.size() == 2) again.insert(plan->layers[layer.layer].name());
  }
  EXPECT_EQ(again, (std::set<std::string>{"bn", "scale", "drop", "act"}));
}

TEST(Recompute, FollowsChangesOfShapes) {
  const auto run = [](const std::string& text) {
    const auto plan = PlanText(text);
    Session session(plan, Weights::Make(*plan, 1), ExecContext(1));
    std::vector<std::vector<float>> gradients;
    for (const Shape& shape : {Shape{4, 3, 16, 16}, Shape{2, 3, 9, 12}, Shape{4, 3, 16, 16}}) {
      session.Reshape("x", shape);
      FillInput(&session, "x", 4);
      session.Forward();
      session.ZeroParameterGradients();
      session.Backward();
      gradients.push_back(ValuesOf(session.ParameterGradient(0)));
    }
    return gradients;
  };
  EXPECT_EQ(run(kChain), run(Without(kChain)));
}

// Inputs and outputs of the net can be read after both passes.
TEST(Recompute, OutputsOfTheNetStay) {
  const std::string text = std::string(kChain) + R"(
layer { name: "side" type: "Power" bottom: "conv2" top: "side" recompute: true
  power_param { power: 2 } })";
  const auto run = [](const std::string& net) {
    const auto plan = PlanText(net);
    Session session(plan, Weights::Make(*plan, 1), ExecContext(1));
    FillInput(&session, "x", 4);
    session.Forward();
    session.Backward();
    return std::pair(ValuesOf(session.Data("side")), ValuesOf(session.Data("x")));
  };
  EXPECT_EQ(run(text), run(Without(text)));
}

}  // namespace
}  // namespace crema
