// State dicts of PyTorch find their places in nets.
#include "runtime/state_match.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "core/error.h"
#include "core/strings.h"
#include "support/net.h"

namespace crema {
namespace {

constexpr const char* kInput =
    "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 4 dim: 5 dim: 5 } "
    "} }\n";

// A state dict in memory. Element i of entry e is 100 * e + i.
class Fake final : public StateDict {
 public:
  explicit Fake(const std::vector<std::pair<std::string, Shape>>& entries) : StateDict("m.pth") {
    for (const auto& [name, shape] : entries) entries_.push_back({name, ElementType::kF32, shape});
  }
  explicit Fake(std::vector<TorchEntry> values) : StateDict("m.pth"), values_(std::move(values)) {
    for (const TorchEntry& e : values_) {
      entries_.push_back({e.name, ElementType::kF32, e.value.shape()});
    }
  }
  Fake& WithCounter(const std::string& name) { return With(name, ElementType::kI64, Shape()); }
  Fake& With(const std::string& name, ElementType type, const Shape& shape) {
    entries_.push_back({name, type, shape});
    return *this;
  }
  Tensor Read(size_t entry) override {
    Tensor value(entries_[entry].shape, DType::kF32);
    const std::span<float> to = value.view().span<float>();
    if (values_.empty()) {
      std::iota(to.begin(), to.end(), 100.0F * static_cast<float>(entry));
    } else {
      std::ranges::copy(std::as_const(values_[entry].value).view().span<float>(), to.begin());
    }
    return value;
  }

 private:
  std::vector<TorchEntry> values_;
};

std::string ConvOf(const std::string& name, const std::string& bottom, int outputs, int kernel = 1,
                   bool bias = false) {
  return StrCat("layer { name: '", name, "' type: 'Convolution' bottom: '", bottom, "' top: '",
                name, "' convolution_param { num_output: ", outputs, " kernel_size: ", kernel,
                " pad: ", kernel / 2, bias ? "" : " bias_term: false", " } }\n");
}

std::string Norm(const std::string& name, const std::string& blob) {
  return StrCat("layer { name: 'bn_", name, "' type: 'BatchNorm' bottom: '", blob, "' top: '", blob,
                "' }\nlayer { name: 'scale_", name, "' type: 'Scale' bottom: '", blob, "' top: '",
                blob, "' scale_param { bias_term: true } }\n");
}

std::vector<std::pair<std::string, Shape>> NormEntries(const std::string& name, int64_t channels) {
  return {{name + ".weight", {channels}},
          {name + ".bias", {channels}},
          {name + ".running_mean", {channels}},
          {name + ".running_var", {channels}}};
}

void Append(const std::vector<std::pair<std::string, Shape>>& more,
            std::vector<std::pair<std::string, Shape>>* entries) {
  entries->insert(entries->end(), more.begin(), more.end());
}

std::shared_ptr<const Plan> PlanUnoptimized(const std::string& text) {
  return test::PlanText(text, TEST, {.backward = false, .optimize = false});
}

// The matches as "entry -> layer parameter", a line each.
std::string TextOf(const Plan& plan, const StateMatches& matches) {
  std::string text;
  for (const StateMatch& match : matches.matches) {
    const ParameterSlot& slot = plan.parameters[static_cast<size_t>(match.slot)];
    text += StrCat(match.entry == kZerosEntry  ? "zeros"
                   : match.entry == kOnesEntry ? "ones"
                                               : matches.names[static_cast<size_t>(match.entry)],
                   " -> ", plan.layers[static_cast<size_t>(slot.layer)].name(), " ",
                   match.parameter->role, "\n");
  }
  return text;
}

std::string ProblemsOf(const StateMatches& matches) {
  std::string text;
  for (const Problem& problem : matches.problems) text += ToString(problem) + "\n";
  return text;
}

StateMatches Match(const Plan& plan, const StateDict& file, const std::string& map = "") {
  return MatchState(plan, file, ParseStateMap(map, "map"), "map");
}

// Expects these matches and no problem.
void ExpectMatches(const Plan& plan, const StateDict& file, const std::string& expected,
                   const std::string& map = "") {
  const StateMatches matches = Match(plan, file, map);
  EXPECT_EQ(ProblemsOf(matches), "");
  EXPECT_EQ(TextOf(plan, matches), expected);
}

std::vector<float> Filled(const Plan& plan, StateDict* file, size_t slot) {
  const std::shared_ptr<Weights> weights = Weights::MakeToLoad(plan, 1);
  FillFromState(plan, file, Match(plan, *file), weights.get());
  return test::ValuesOf(std::as_const(*weights).blob(slot));
}

TEST(StateMatch, ByName) {
  const auto plan =
      PlanUnoptimized(kInput + ConvOf("a/1", "x", 3, 1, true) + ConvOf("b", "a/1", 3, 1, true));
  // In another order; a Conv1d has one axis less.
  const Fake file({{"module.b.weight", {3, 3, 1, 1}},
                   {"module.b.bias", {3}},
                   {"module.a.1.weight", {3, 4, 1}},
                   {"module.a.1.bias", {3}}});
  ExpectMatches(*plan, file,
                "a.1.weight -> a/1 weight\na.1.bias -> a/1 bias\n"
                "b.weight -> b weight\nb.bias -> b bias\n");
  EXPECT_EQ(Match(*plan, file).prefix, "module.");
}

TEST(StateMatch, ByOrderAndShape) {
  const auto plan =
      PlanUnoptimized(kInput + ConvOf("c1", "x", 3) + Norm("1", "c1") +
                      "layer { name: 'ip' type: 'InnerProduct' bottom: 'c1' top: 'ip' "
                      "inner_product_param { num_output: 2 } }\n");
  std::vector<std::pair<std::string, Shape>> entries = {{"features.0.weight", {3, 4, 1, 1}}};
  Append(NormEntries("features.1", 3), &entries);
  entries.push_back({"classifier.weight", {2, 75}});
  Fake file(entries);
  file.WithCounter("features.1.num_batches_tracked");
  ExpectMatches(*plan, file,
                "features.0.weight -> c1 weight\n"
                "features.1.running_mean -> bn_1 mean_sum\n"
                "features.1.running_var -> bn_1 variance_sum\n"
                "ones -> bn_1 factor\n"
                "features.1.weight -> scale_1 scale\n"
                "features.1.bias -> scale_1 bias\n"
                "classifier.weight -> ip weight\n"
                "zeros -> ip bias\n");
}

// ResNet's first block: PyTorch has the shortcut last, Caffe first, and two convolutions have one
// shape.
TEST(StateMatch, ByTheOrderOfTheGraph) {
  const auto plan = PlanUnoptimized(
      kInput + ConvOf("branch1", "x", 8) + Norm("branch1", "branch1") + ConvOf("2a", "x", 4) +
      Norm("2a", "2a") + ConvOf("2b", "2a", 4, 3) + Norm("2b", "2b") + ConvOf("2c", "2b", 8) +
      Norm("2c", "2c") +
      "layer { name: 'sum' type: 'Eltwise' bottom: 'branch1' bottom: '2c' top: 'sum' }\n");
  std::vector<std::pair<std::string, Shape>> entries;
  const auto add = [&](const std::string& conv, const std::string& norm, const Shape& shape) {
    entries.push_back({conv + ".weight", shape});
    Append(NormEntries(norm, shape[0]), &entries);
  };
  add("conv1", "bn1", {4, 4, 1, 1});
  add("conv2", "bn2", {4, 4, 3, 3});
  add("conv3", "bn3", {8, 4, 1, 1});
  add("downsample.0", "downsample.1", {8, 4, 1, 1});
  const Fake file(entries);
  const StateMatches matches = Match(*plan, file);
  EXPECT_EQ(ProblemsOf(matches), "");
  const std::string text = TextOf(*plan, matches);
  for (const char* line :
       {"conv1.weight -> 2a weight", "conv2.weight -> 2b weight", "conv3.weight -> 2c weight",
        "downsample.0.weight -> branch1 weight", "bn3.running_mean -> bn_2c mean_sum",
        "downsample.1.running_mean -> bn_branch1 mean_sum"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
}

// safetensors sorts entries by name: bn1 before conv1, block 10 before block 2.
TEST(StateMatch, ByNumbersOfSortedNames) {
  std::string text = kInput;
  std::string bottom = "x";
  std::map<std::string, Shape> entries;
  std::string expected;
  for (int block = 0; block < 12; ++block) {
    const auto add = [&](const std::string& layer, const std::string& from, int inputs, int outputs,
                         int kernel, const std::string& conv, const std::string& norm) {
      const std::string name = StrCat(layer, "_", block);
      const std::string module = StrCat("layer1.", block, ".");
      text += ConvOf(name, from, outputs, kernel) + Norm(name, name);
      entries.emplace(module + conv + ".weight", Shape{outputs, inputs, kernel, kernel});
      for (const auto& [entry, shape] : NormEntries(module + norm, outputs)) {
        entries.emplace(entry, shape);
      }
      expected += StrCat(module, conv, ".weight -> ", name, " weight\n", module, norm,
                         ".running_mean -> bn_", name, " mean_sum\n");
      return name;
    };
    const int inputs = block == 0 ? 4 : 8;
    std::string shortcut = bottom;
    if (block == 0) shortcut = add("s", bottom, inputs, 8, 1, "downsample.0", "downsample.1");
    const std::string a = add("a", bottom, inputs, 4, 1, "conv1", "bn1");
    const std::string b = add("b", a, 4, 4, 3, "conv2", "bn2");
    const std::string c = add("c", b, 4, 8, 1, "conv3", "bn3");
    bottom = StrCat("sum", block);
    text += StrCat("layer { name: '", bottom, "' type: 'Eltwise' bottom: '", shortcut,
                   "' bottom: '", c, "' top: '", bottom, "' }\n");
  }
  const auto plan = PlanUnoptimized(text);
  const Fake file(std::vector<std::pair<std::string, Shape>>(entries.begin(), entries.end()));
  const StateMatches matches = Match(*plan, file);
  EXPECT_EQ(ProblemsOf(matches), "");
  const std::string found = TextOf(*plan, matches);
  for (const std::string& line : Split(expected, '\n')) {
    EXPECT_NE(found.find(line), std::string::npos) << line;
  }
}

// The alphabetical order of names does not distinguish k, q and v.
TEST(StateMatch, WordsOfSortedNamesAreNoOrder) {
  const auto plan = PlanUnoptimized(kInput + ConvOf("query", "x", 4) + ConvOf("key", "x", 4) +
                                    ConvOf("value", "x", 4) + ConvOf("out", "x", 5));
  const Fake file({{"k_proj.weight", {4, 4, 1, 1}},
                   {"out_proj.weight", {5, 4, 1, 1}},
                   {"q_proj.weight", {4, 4, 1, 1}},
                   {"v_proj.weight", {4, 4, 1, 1}}});
  const StateMatches matches = Match(*plan, file);
  EXPECT_EQ(TextOf(*plan, matches), "out_proj.weight -> out weight\n");
  EXPECT_EQ(matches.problems.size(), 6U) << ProblemsOf(matches);
  ExpectMatches(*plan, file,
                "q_proj.weight -> query weight\nk_proj.weight -> key weight\n"
                "v_proj.weight -> value weight\nout_proj.weight -> out weight\n",
                "q_proj.weight = query weight\nk_proj.weight = key weight\n");
}

TEST(StateMatch, AmbiguousAndMissingOnesAreListedTogether) {
  // Two branches of one shape, in a file with more: which are meant?
  const auto plan = PlanUnoptimized(kInput + ConvOf("first", "x", 2) + ConvOf("left", "x", 3) +
                                    ConvOf("right", "x", 3) + ConvOf("last", "x", 7));
  const Fake file({{"p.weight", {3, 4, 1, 1}},
                   {"q.weight", {3, 4, 1, 1}},
                   {"r.weight", {3, 4, 1, 1}},
                   {"head.weight", {2, 4, 1, 1}},
                   {"other.weight", {9, 9}}});
  const StateMatches matches = Match(*plan, file);
  const std::string problems = ProblemsOf(matches);
  for (const char* part :
       {"layer \"left\": no entry for 'weight', which is 3x4x1x1; p.weight, q.weight, r.weight",
        "layer \"right\": no entry for 'weight'", "layer \"last\": no entry for 'weight'",
        "m.pth: entry 'p.weight', which is 3x4x1x1, has no place; it fits left, right",
        "entry 'r.weight'"}) {
    EXPECT_NE(problems.find(part), std::string::npos) << part << "\n" << problems;
  }
  EXPECT_EQ(matches.problems.size(), 6U) << problems;
  EXPECT_EQ(matches.unused, std::vector<int>{4});
  EXPECT_EQ(TextOf(*plan, matches), "head.weight -> first weight\n") << "the only one that fits";
  const std::shared_ptr<Weights> weights = Weights::MakeToLoad(*plan, 1);
  Fake again(file.entries().empty() ? std::vector<std::pair<std::string, Shape>>{}
                                    : std::vector<std::pair<std::string, Shape>>{{"a", {1}}});
  EXPECT_THROW(FillFromState(*plan, &again, matches, weights.get()), Error);
}

TEST(StateMatch, AnEntryThatFitsAFilledLayerIsNoSilentLeftover) {
  const auto plan = PlanUnoptimized(kInput + ConvOf("c", "x", 3));
  const Fake file({{"aux.weight", {3, 4, 1, 1}}, {"main.weight", {3, 4, 1, 1}}});
  EXPECT_NE(ProblemsOf(Match(*plan, file)).find("has no place; it fits c"), std::string::npos);
  ExpectMatches(*plan, file, "main.weight -> c weight\n", "aux.weight = -");
}

TEST(StateMatch, StatisticsWithoutALayerAreNoSilentLeftover) {
  const auto plan = PlanUnoptimized(kInput + ConvOf("c", "x", 3, 1, true));
  std::vector<std::pair<std::string, Shape>> entries = {{"c.weight", {3, 4, 1, 1}},
                                                        {"c.bias", {3}}};
  Append(NormEntries("b", 3), &entries);
  const std::string problems = ProblemsOf(Match(*plan, Fake(entries)));
  for (const char* part : {"m.pth: entry 'b.running_mean' is not used: the net has no BatchNorm",
                           "m.pth: entry 'b.running_var' is not used", "'b.running_var = -'"}) {
    EXPECT_NE(problems.find(part), std::string::npos) << part << "\n" << problems;
  }
  const std::string used = "c.weight -> c weight\nc.bias -> c bias\n";
  ExpectMatches(*plan, Fake(entries), used, "b.running_mean = -\nb.running_var = -\n");
  // A branch that the net does not have at all.
  entries.resize(2);
  entries.push_back({"aux.conv.weight", {9, 9, 1, 1}});
  Append(NormEntries("aux.norm", 9), &entries);
  ExpectMatches(*plan, Fake(entries), used);
}

TEST(StateMatch, ParametersOfWholeNumbers) {
  const auto plan = PlanUnoptimized(kInput + ConvOf("c", "x", 3, 1, true));
  const std::string both = "c.weight -> c weight\nc.bias -> c bias\n";
  Fake file({{"c.weight", {3, 4, 1, 1}}});
  file.With("c.bias", ElementType::kI64, {3}).With("position_ids", ElementType::kI64, {3});
  ExpectMatches(*plan, file, both);
  EXPECT_EQ(Match(*plan, file).unused, std::vector<int>{2});
}

TEST(StateMatch, BytesMayBeOfAQuantizedModel) {
  const auto plan = PlanUnoptimized(kInput + ConvOf("c", "x", 3));
  Fake file(std::vector<std::pair<std::string, Shape>>{});
  file.With("c.weight", ElementType::kI8, {3, 4, 1, 1});
  EXPECT_NE(ProblemsOf(Match(*plan, file)).find("'c.weight' has elements of type I8"),
            std::string::npos);
  ExpectMatches(*plan, file, "c.weight -> c weight\n", "c.weight = c weight");
}

TEST(StateMatch, AnEntryOfAnotherShapeIsNamed) {
  const auto plan = PlanUnoptimized(kInput + ConvOf("c", "x", 3));
  EXPECT_NE(ProblemsOf(Match(*plan, Fake({{"c.weight", {3, 4, 5, 5}}})))
                .find("no entry for 'weight', which is 3x4x1x1; 'c.weight' is 3x4x5x5"),
            std::string::npos);
}

TEST(StateMatch, ConstantsOfTheNetCanBeKept) {
  const auto plan = PlanUnoptimized(kInput + ConvOf("c", "x", 3) +
                                    "layer { name: 'p' type: 'Parameter' top: 'p' "
                                    "parameter_param { shape { dim: 2 } } }\n");
  Fake file({{"c.weight", {3, 4, 1, 1}}});
  EXPECT_NE(ProblemsOf(Match(*plan, file)).find("layer \"p\": no entry"), std::string::npos);
  const StateMatches matches = MatchState(*plan, file, {}, "", true);
  EXPECT_EQ(ProblemsOf(matches), "");
  const std::shared_ptr<Weights> weights = Weights::MakeToLoad(*plan, 1);
  std::ranges::fill(weights->blob(1).span<float>(), 7.0F);
  FillFromState(*plan, &file, matches, weights.get());
  EXPECT_EQ(test::ValuesOf(std::as_const(*weights).blob(1)), (std::vector<float>{7, 7}));
  EXPECT_EQ(test::ValuesOf(std::as_const(*weights).blob(0))[11], 11);
}

TEST(StateMatch, TheMapReplacesGuesses) {
  const auto plan =
      PlanUnoptimized(kInput + ConvOf("c", "x", 3, 1, true) + ConvOf("d", "x", 3, 1, true));
  const Fake file(
      {{"p.weight", {3, 4, 1, 1}}, {"p.bias", {3}}, {"q.weight", {3, 4, 1, 1}}, {"q.bias", {3}}});
  ExpectMatches(*plan, file,
                "p.weight -> c weight\np.bias -> c bias\nq.weight -> d weight\nq.bias -> d bias\n");
  // The bias follows its weight; parameters may be given by number.
  ExpectMatches(*plan, file,
                "q.weight -> c weight\nq.bias -> c bias\np.weight -> d weight\np.bias -> d bias\n",
                "# swapped\np.weight = d 0   # its bias too\n");
  ExpectMatches(*plan, file,
                "p.weight -> c weight\nones -> c bias\nq.weight -> d weight\nq.bias -> d bias\n",
                "p.weight = c weight\nones = c bias\np.bias = -\n");
}

TEST(StateMatch, APrintedMapIsReadBack) {
  const auto plan = PlanUnoptimized(kInput + ConvOf("c", "x", 3, 1, true) + Norm("1", "c"));
  std::vector<std::pair<std::string, Shape>> entries = {{"p.weight", {3, 4, 1, 1}},
                                                        {"position_ids", {1, 8}}};
  Append(NormEntries("n", 3), &entries);
  const Fake file(entries);
  const StateMatches matches = Match(*plan, file);
  const std::string map = PrintStateMap(*plan, file, matches);
  EXPECT_NE(map.find("p.weight = c weight\nzeros = c bias\nn.running_mean = bn_1 mean_sum\n"),
            std::string::npos)
      << map;
  EXPECT_NE(map.find("position_ids = -\n"), std::string::npos) << map;
  ExpectMatches(*plan, file, TextOf(*plan, matches), map);
  // With missing entries as comments.
  const Fake less({{"p.weight", {3, 4, 1, 1}}});
  const std::string partial = PrintStateMap(*plan, less, Match(*plan, less));
  EXPECT_NE(partial.find("#  = bn_1 mean_sum   # 3\n"), std::string::npos) << partial;
  EXPECT_EQ(ParseStateMap(partial, "map").size(), 2U);
}

TEST(StateMatch, WrongMaps) {
  const auto plan = PlanUnoptimized(kInput + ConvOf("conv", "x", 3));
  const Fake file({{"p.weight", {3, 4, 1, 1}}, {"q.weight", {5, 5}}});
  const auto problem = [&](const std::string& map) { return ProblemsOf(Match(*plan, file, map)); };
  const auto expect = [&](const std::string& map, const std::string& part) {
    EXPECT_NE(problem(map).find(part), std::string::npos) << problem(map);
  };
  expect("p.weigt = conv weight",
         "map:1:1: the file has no entry 'p.weigt' (did you mean 'p.weight'");
  expect("\np.weight = cnv weight", "map:2:1: the net has no layer 'cnv'");
  expect("p.weight = conv bias", "has no parameter 'bias'; it has weight");
  expect("q.weight = conv weight", "'q.weight' is 5x5 in the file, but 'weight' of layer 'conv'");
  expect("p.weight = conv weight\nzeros = conv weight", "map:2:1: 'weight' of layer 'conv' has an");
  EXPECT_THROW(ParseStateMap("p.weight conv weight", "map"), Error);
  EXPECT_THROW(ParseStateMap("p.weight = conv", "map"), Error);
  EXPECT_THROW(ParseStateMap(" = conv weight", "map"), Error);
}

TEST(StateMatch, MatricesFitConvolutionsOverTheWholeInput) {
  const auto plan = PlanUnoptimized(
      kInput + std::string("layer { name: 'fc6' type: 'Convolution' bottom: 'x' top: 'y' "
                           "convolution_param { num_output: 3 kernel_size: 5 } }\n"));
  Fake file({{"classifier.0.weight", {3, 100}}, {"classifier.0.bias", {3}}});
  EXPECT_EQ(Filled(*plan, &file, 0)[99 + 100], 199);
}

TEST(StateMatch, TransposedInnerProduct) {
  const auto plan = PlanUnoptimized(
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 3 } } }\n"
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' "
      "inner_product_param { num_output: 2 transpose: true bias_term: false } }\n");
  Fake file({{"ip.weight", {2, 3}}});
  EXPECT_EQ(Filled(*plan, &file, 0), (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

TEST(StateMatch, LstmGatesAndBiases) {
  const auto plan = PlanUnoptimized(
      "layer { name: 'x' type: 'Input' top: 'x' top: 'cont' input_param { shape { dim: 5 dim: 1 "
      "dim: 2 } shape { dim: 5 dim: 1 } } }\n"
      "layer { name: 'lstm' type: 'LSTM' bottom: 'x' bottom: 'cont' top: 'y' "
      "recurrent_param { num_output: 1 direction: BIDIRECTIONAL } }\n");
  const auto direction = [](const std::string& end) {
    return std::vector<std::pair<std::string, Shape>>{{"rnn.weight_ih_l0" + end, {4, 2}},
                                                      {"rnn.weight_hh_l0" + end, {4, 1}},
                                                      {"rnn.bias_ih_l0" + end, {4}},
                                                      {"rnn.bias_hh_l0" + end, {4}}};
  };
  std::vector<std::pair<std::string, Shape>> entries = direction("");
  Append(direction("_reverse"), &entries);
  Fake file(entries);
  // The gates i, f, g, o become i, f, o, g.
  EXPECT_EQ(Filled(*plan, &file, 0), (std::vector<float>{0, 1, 2, 3, 6, 7, 4, 5}));
  EXPECT_EQ(Filled(*plan, &file, 1), (std::vector<float>{500, 502, 506, 504})) << "the sum of two";
  EXPECT_EQ(Filled(*plan, &file, 2), (std::vector<float>{100, 101, 103, 102}));
  EXPECT_EQ(Filled(*plan, &file, 4), (std::vector<float>{1300, 1302, 1306, 1304}));
}

TEST(StateMatch, GruIsAsInPyTorchAndRnnIsRefused) {
  const std::string input =
      "layer { name: 'x' type: 'Input' top: 'x' top: 'cont' input_param { shape { dim: 5 dim: 1 "
      "dim: 2 } shape { dim: 5 dim: 1 } } }\n";
  const auto plan = PlanUnoptimized(input +
                                    "layer { name: 'gru' type: 'GRU' bottom: 'x' top: 'y' "
                                    "recurrent_param { num_output: 1 } }\n");
  const std::vector<std::pair<std::string, Shape>> entries = {
      {"weight_ih_l0", {3, 2}}, {"weight_hh_l0", {3, 1}}, {"bias_ih_l0", {3}}, {"bias_hh_l0", {3}}};
  Fake file(entries);
  EXPECT_EQ(Filled(*plan, &file, 0), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(Filled(*plan, &file, 3), (std::vector<float>{300, 301, 302}));
  const auto other =
      PlanUnoptimized(input +
                      "layer { name: 'gru' type: 'GRU' bottom: 'x' top: 'y' "
                      "recurrent_param { num_output: 1 reset_after: false } }\n"
                      "layer { name: 'rnn' type: 'RNN' bottom: 'x' bottom: 'cont' top: 'z' "
                      "recurrent_param { num_output: 1 } }\n");
  const std::string problems = ProblemsOf(Match(*other, file));
  EXPECT_NE(problems.find("set reset_after: true"), std::string::npos) << problems;
  EXPECT_NE(problems.find("W_ho"), std::string::npos) << problems;
}

TEST(StateMatch, OtherLayersAndBothDirections) {
  const auto plan = PlanUnoptimized(
      kInput + ConvOf("c", "x", 3, 1, true) + Norm("1", "c") +
      "layer { name: 'p' type: 'PReLU' bottom: 'c' top: 'c' }\n"
      "layer { name: 'bn' type: 'BN' bottom: 'c' top: 'c' bn_param { frozen: true } }\n"
      "layer { name: 'ln' type: 'LayerNorm' bottom: 'c' top: 'c' layer_norm_param { axis: 1 } }\n"
      "layer { name: 'd' type: 'Deconvolution' bottom: 'c' top: 'd' convolution_param { "
      "num_output: "
      "2 kernel_size: 2 } }\n");
  const std::shared_ptr<Weights> weights = Weights::Make(*plan, 7);
  float next = 0.5F;
  for (size_t slot = 0; slot < weights->size(); ++slot) {
    for (float& value : weights->blob(slot).span<float>()) value = next += 0.25F;
  }
  for (const ParameterSlot& slot : plan->parameters) {
    if (slot.role != "factor") continue;
    weights->blob(static_cast<size_t>(slot.owner)).span<float>()[0] = 4;
  }
  Fake file(ToTorchEntries(*plan, *weights));
  std::vector<std::string> names;
  for (const StateEntry& entry : file.entries()) {
    names.push_back(StrCat(entry.name, " ", ToString(entry.shape)));
  }
  EXPECT_EQ(Join(names, ", "),
            "c.weight 3x4x1x1, c.bias 3, bn_1.running_mean 3, bn_1.running_var 3, bn_1.weight 3, "
            "bn_1.bias 3, p.weight 3, bn.weight 3, bn.bias 3, bn.running_mean 3, bn.running_var 3, "
            "ln.weight 3x5x5, ln.bias 3x5x5, d.weight 3x2x2x2, d.bias 2");
  EXPECT_EQ(test::ValuesOf(file.Read(2).view())[0],
            std::as_const(*weights).blob(2).span<float>()[0] / 4)
      << "an average";
  const std::shared_ptr<Weights> back = Weights::MakeToLoad(*plan, 1);
  FillFromState(*plan, &file, Match(*plan, file), back.get());
  for (size_t slot = 0; slot < weights->size(); ++slot) {
    std::vector<float> expected = test::ValuesOf(std::as_const(*weights).blob(slot));
    const std::string& role = plan->parameters[slot].role;
    if (role == "factor" || role.ends_with(" sum")) {
      for (float& value : expected) value /= 4;
    }
    EXPECT_EQ(test::ValuesOf(std::as_const(*back).blob(slot)), expected) << role;
  }
}

TEST(StateMatch, SharedParametersAreFilledOnce) {
  const auto plan =
      PlanUnoptimized(std::string(kInput) +
                      "layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'a' param { "
                      "name: 'w' } param { name: "
                      "'b' } inner_product_param { num_output: 2 } }\n"
                      "layer { name: 'b' type: 'InnerProduct' bottom: 'x' top: 'b' param { "
                      "name: 'w' } param { name: "
                      "'b' } inner_product_param { num_output: 2 } }\n");
  Fake file({{"tied.weight", {2, 100}}, {"tied.bias", {2}}});
  EXPECT_EQ(Filled(*plan, &file, 0)[1], 1);
  EXPECT_EQ(Filled(*plan, &file, 3), (std::vector<float>{100, 101}));
}

}  // namespace
}  // namespace crema
