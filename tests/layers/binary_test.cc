// Binary, Where, Expand, Tile and Reduction against plain loops over NumPy's rules, on random
// shapes; values that the formulas of Binary and Unary give at special arguments.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "core/rng.h"
#include "core/strings.h"
#include "support/layer_expect.h"
#include "support/layer_fixture.h"
#include "support/net.h"

namespace crema::test {
namespace {

using test::CallBuiltin;
using test::kInfinity;
using test::kNan;

using Dims = std::vector<int64_t>;

int64_t Count(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

// Random numbers of one case.
class Draw {
 public:
  explicit Draw(int number) : stream_(17, static_cast<uint64_t>(number)) {}
  int64_t Int(int64_t low, int64_t high) {
    return low + stream_.Below(next_++, static_cast<uint32_t>(high - low + 1));
  }
  bool Chance(int percent) { return Int(1, 100) <= percent; }
  Values Numbers(int64_t count) {
    Values values(static_cast<size_t>(count));
    for (double& v : values) v = static_cast<double>(Int(-1000, 1000)) / 512;  // f32 has each
    return values;
  }
  // 0 to 6 axes; at times one of size 0 or a long one.
  Dims Shape() {
    Dims dims(static_cast<size_t>(Int(0, 6)));
    for (int64_t& dim : dims) dim = Chance(4) ? 0 : Int(1, 4);
    if (!dims.empty() && Count(dims) <= 16 && Chance(50)) {
      dims[static_cast<size_t>(Int(0, static_cast<int64_t>(dims.size()) - 1))] = Int(60, 1500);
    }
    return dims;
  }
  // A shape that broadcasts to `dims`.
  Dims Operand(const Dims& dims) {
    Dims own = dims;
    for (int64_t& dim : own) dim = Chance(40) ? 1 : dim;
    const auto dropped = Chance(30) ? Int(0, static_cast<int64_t>(dims.size())) : 0;
    own.erase(own.begin(), own.begin() + dropped);
    return own;
  }

 private:
  RandomStream stream_;
  uint64_t next_ = 0;
};

// Returns NumPy's shape for the operands; sizes that differ are 1 and another one.
Dims Broadcast(const std::vector<Dims>& operands) {
  Dims result;
  for (const Dims& operand : operands) {
    if (operand.size() > result.size())
      result.insert(result.begin(), operand.size() - result.size(), 1);
    for (size_t i = 1; i <= operand.size(); ++i) {
      if (operand[operand.size() - i] != 1) result[result.size() - i] = operand[operand.size() - i];
    }
  }
  return result;
}

// Returns the position in an operand of element `i` of the result; each axis is repeated as often
// as it takes.
size_t PositionIn(const Dims& operand, const Dims& result, int64_t i) {
  int64_t position = 0, step = 1;
  for (size_t a = 1; a <= operand.size(); ++a) {
    const int64_t place = i % result[result.size() - a];
    position += place % operand[operand.size() - a] * step;
    step *= operand[operand.size() - a];
    i /= result[result.size() - a];
  }
  return static_cast<size_t>(position);
}

// Runs a layer in f64 and in f32, with one thread and with three.
void Expect(const std::string& type, const std::string& prototxt, const std::vector<Blob>& inputs,
            const Values& dy, const Values& y, const std::vector<Values>& gradients,
            double tolerance = 0) {
  LayerSample sample{.name = "call", .prototxt = prototxt, .inputs = {}};
  CaseValues values{.inputs = {}, .parameters = {}, .output_grads = {dy}};
  for (const Blob& input : inputs) {
    sample.inputs.push_back({.shape = input.shape});
    values.inputs.push_back(input.values);
  }
  const auto near = [](const Values& got, const Values& expected, double bound) {
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      if (std::isnan(expected[i]) ? std::isnan(got[i]) : got[i] == expected[i]) continue;
      ASSERT_NEAR(got[i], expected[i], bound * std::max(1.0, std::abs(expected[i]))) << i;
    }
  };
  for (const DType dtype : {DType::kF64, DType::kF32}) {
    const LayerCase layer_case(*TestRegistry().Find(type), sample, dtype);
    const bool wide = dtype == DType::kF64;
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(
          StrCat(type, " { ", prototxt, " } ", wide ? "f64" : "f32", " threads ", threads));
      const RunResult result =
          RunLayer(layer_case, values, {.threads = threads, .backward = !gradients.empty()});
      ASSERT_TRUE(result.failures.empty()) << result.failures.front();
      near(result.outputs[0], y, wide ? std::max(tolerance, 1e-14) : 1e-5);
      for (size_t i = 0; i < gradients.size(); ++i) {
        near(result.input_grads[i], gradients[i], wide ? 1e-9 : 1e-4);
      }
    }
  }
}

struct Function {
  std::string fields;
  std::function<double(double, double)> value;
  std::function<double(double, double)> slope_a;  // null: no gradient
  std::function<double(double, double)> slope_b;
};

std::vector<Function> Functions() {
  const auto one = [](double, double) { return 1.0; };
  return {
      {"operation: ADD", std::plus<>(), one, one},
      {"operation: SUB", std::minus<>(), one, [](double, double) { return -1.0; }},
      {"operation: MUL", std::multiplies<>(), [](double, double b) { return b; },
       [](double a, double) { return a; }},
      {"operation: PRELU", [](double a, double b) { return a >= 0 ? a : a * b; },
       [](double a, double b) { return a >= 0 ? 1 : b; },
       [](double a, double) { return a >= 0 ? 0 : a; }},
      {"operation: LESS", [](double a, double b) { return a < b ? 1.0 : 0.0; }, {}, {}},
  };
}

TEST(BinaryTest, BroadcastsAsNumPyOnRandomShapes) {
  const std::vector<Function> functions = Functions();
  std::set<size_t> ranks;
  int empty = 0;
  for (int number = 0; number < 250 && !HasFatalFailure(); ++number) {
    SCOPED_TRACE(number);
    Draw draw(number);
    const Dims most = draw.Shape();
    const std::vector<Dims> shapes = {draw.Operand(most), draw.Operand(most)};
    const Dims result = Broadcast(shapes);
    const Values a = draw.Numbers(Count(shapes[0])), b = draw.Numbers(Count(shapes[1]));
    const Values dy = draw.Numbers(Count(result));
    const Function& function =
        functions[static_cast<size_t>(draw.Int(0, static_cast<int64_t>(functions.size()) - 1))];
    Values y, da(a.size()), db(b.size());
    for (int64_t i = 0; i < Count(result); ++i) {
      const size_t at_a = PositionIn(shapes[0], result, i), at_b = PositionIn(shapes[1], result, i);
      y.push_back(function.value(a[at_a], b[at_b]));
      if (!function.slope_a) continue;
      da[at_a] += dy[static_cast<size_t>(i)] * function.slope_a(a[at_a], b[at_b]);
      db[at_b] += dy[static_cast<size_t>(i)] * function.slope_b(a[at_a], b[at_b]);
    }
    const auto gradients = function.slope_a ? std::vector<Values>{da, db} : std::vector<Values>{};
    Expect("Binary", "binary_param { " + function.fields + " }", {{shapes[0], a}, {shapes[1], b}},
           dy, y, gradients);
    ranks.insert(result.size());
    empty += y.empty() ? 1 : 0;
  }
  EXPECT_EQ(ranks.size(), 7U);
  EXPECT_GT(empty, 5);
}

TEST(WhereTest, BroadcastsAsNumPyOnRandomShapes) {
  for (int number = 0; number < 100 && !HasFatalFailure(); ++number) {
    SCOPED_TRACE(number);
    Draw draw(1000 + number);
    const Dims most = draw.Shape();
    const std::vector<Dims> shapes = {draw.Operand(most), draw.Operand(most), draw.Operand(most)};
    const Dims result = Broadcast(shapes);
    Values condition(static_cast<size_t>(Count(shapes[0])));
    for (double& c : condition) c = draw.Chance(50) ? 0 : static_cast<double>(draw.Int(-1, 1));
    const Values a = draw.Numbers(Count(shapes[1])), b = draw.Numbers(Count(shapes[2]));
    const Values dy = draw.Numbers(Count(result));
    Values y, da(a.size()), db(b.size());
    for (int64_t i = 0; i < Count(result); ++i) {
      const bool first = condition[PositionIn(shapes[0], result, i)] != 0;
      const size_t at_a = PositionIn(shapes[1], result, i), at_b = PositionIn(shapes[2], result, i);
      y.push_back(first ? a[at_a] : b[at_b]);
      (first ? da[at_a] : db[at_b]) += dy[static_cast<size_t>(i)];
    }
    Expect("Where", "", {{shapes[0], condition}, {shapes[1], a}, {shapes[2], b}}, dy, y,
           {{}, da, db});
  }
}

std::string Fields(const std::string& name, const Dims& numbers) {
  std::string text;
  for (const int64_t number : numbers) text += StrCat(" ", name, ": ", number);
  return text;
}

// Checks a layer that repeats x to `result`.
void ExpectRepeats(const std::string& type, const std::string& prototxt, Draw& draw,
                   const Dims& shape, const Dims& result) {
  const Values x = draw.Numbers(Count(shape)), dy = draw.Numbers(Count(result));
  Values y, dx(x.size());
  for (int64_t i = 0; i < Count(result); ++i) {
    const size_t at = PositionIn(shape, result, i);
    y.push_back(x[at]);
    dx[at] += dy[static_cast<size_t>(i)];
  }
  if (shape == result) dx = dy;  // a view
  Expect(type, prototxt, {{shape, x}}, dy, y, {dx});
}

TEST(ExpandTest, BroadcastsAsNumPyOnRandomShapes) {
  for (int number = 0; number < 100 && !HasFatalFailure(); ++number) {
    SCOPED_TRACE(number);
    Draw draw(2000 + number);
    Dims most = draw.Shape();
    for (int64_t& dim : most) dim = std::max<int64_t>(dim, 1);  // 0 cannot be asked for
    const Dims shape = draw.Operand(most), asked = draw.Operand(most);
    ExpectRepeats("Expand", "expand_param { shape {" + Fields("dim", asked) + " } }", draw, shape,
                  Broadcast({shape, asked}));
  }
}

TEST(TileTest, RepeatsAlongEachAxisOnRandomShapes) {
  for (int number = 0; number < 100 && !HasFatalFailure(); ++number) {
    SCOPED_TRACE(number);
    Draw draw(3000 + number);
    Dims shape = draw.Shape(), repeats, result;
    if (shape.empty()) shape = {3};
    for (const int64_t dim : shape) {
      repeats.push_back(draw.Int(1, 3));
      result.push_back(dim * repeats.back());
    }
    ExpectRepeats("Tile", "tile_param {" + Fields("repeats", repeats) + " }", draw, shape, result);
  }
}

// One fold: its value, and the slopes of all elements, given the value.
struct FoldFunction {
  std::string name;
  std::function<double(const Values&)> value;
  std::function<Values(const Values&, double)> slopes;
};

Values Each(Values x, const std::function<double(double)>& function) {
  for (double& v : x) v = function(v);
  return x;
}

double Sum(const Values& x) { return std::accumulate(x.begin(), x.end(), 0.0); }

double Product(const Values& x) {
  return std::accumulate(x.begin(), x.end(), 1.0, std::multiplies<>());
}

// 1 for the first element with this value.
Values First(const Values& x, double value) {
  Values slopes(x.size());
  slopes[static_cast<size_t>(std::ranges::find(x, value) - x.begin())] = 1;
  return slopes;
}

std::vector<FoldFunction> Folds() {
  const auto square = [](double v) { return v * v; };
  const auto size = [](const Values& x) { return static_cast<double>(x.size()); };
  return {
      {"SUM", Sum, [](const Values& x, double) { return Values(x.size(), 1); }},
      {"MEAN", [=](const Values& x) { return Sum(x) / size(x); },
       [=](const Values& x, double) { return Values(x.size(), 1 / size(x)); }},
      {"ASUM", [](const Values& x) { return Sum(Each(x, [](double v) { return std::abs(v); })); },
       [](const Values& x, double) {
         return Each(x, [](double v) { return v == 0 ? 0 : std::copysign(1, v); });
       }},
      {"SUMSQ", [=](const Values& x) { return Sum(Each(x, square)); },
       [](const Values& x, double) { return Each(x, [](double v) { return 2 * v; }); }},
      {"L2", [=](const Values& x) { return std::sqrt(Sum(Each(x, square))); },
       [](const Values& x, double norm) {
         return Each(x, [=](double v) { return v == 0 ? 0 : v / norm; });
       }},
      {"LOG_SUM_EXP",
       [](const Values& x) { return std::log(Sum(Each(x, [](double v) { return std::exp(v); }))); },
       [](const Values& x, double value) {
         return Each(x, [=](double v) { return std::exp(v - value); });
       }},
      {"PROD", Product,
       [](const Values& x, double) {
         Values slopes;
         for (size_t i = 0; i < x.size(); ++i) {
           Values others = x;
           others[i] = 1;
           slopes.push_back(Product(others));
         }
         return slopes;
       }},
      {"MAX", [](const Values& x) { return std::ranges::max(x); }, First},
      {"MIN", [](const Values& x) { return std::ranges::min(x); }, First},
  };
}

TEST(ReductionTest, FoldsAnyAxesOfRandomShapes) {
  const std::vector<FoldFunction> folds = Folds();
  for (int number = 0; number < 250 && !HasFatalFailure(); ++number) {
    SCOPED_TRACE(number);
    Draw draw(4000 + number);
    const FoldFunction& fold = folds[static_cast<size_t>(number) % folds.size()];
    Dims shape = draw.Shape(), axes, kept;
    if (shape.empty()) shape = {3};
    for (int64_t& dim : shape) dim = std::max<int64_t>(1, fold.name == "PROD" ? dim % 5 : dim);
    const bool keep_dims = draw.Chance(50);
    const int64_t count = static_cast<int64_t>(shape.size());
    for (int64_t a = 0; a < count; ++a) {
      const bool folded = draw.Chance(50) || (a + 1 == count && axes.empty());
      if (folded) axes.push_back(draw.Chance(50) ? a : a - count);
      kept.push_back(folded ? 1 : shape[static_cast<size_t>(a)]);
    }
    const Values x = draw.Numbers(Count(shape)), dy = draw.Numbers(Count(kept));
    std::vector<Values> groups(dy.size());
    Values y, dx;
    std::vector<size_t> within;
    for (int64_t i = 0; i < Count(shape); ++i) {
      Values& group = groups[PositionIn(kept, shape, i)];
      within.push_back(group.size());
      group.push_back(x[static_cast<size_t>(i)]);
    }
    std::vector<Values> slopes;
    for (const Values& group : groups) {
      const double value = fold.value(group);
      y.push_back(3 * value);
      slopes.push_back(fold.slopes(group, value));
    }
    for (int64_t i = 0; i < Count(shape); ++i) {
      const size_t at = PositionIn(kept, shape, i);
      dx.push_back(3 * dy[at] * slopes[at][within[static_cast<size_t>(i)]]);
    }
    Expect("Reduction",
           StrCat("reduction_param { coeff: 3 operation: ", fold.name, Fields("axes", axes),
                  keep_dims ? " keep_dims: true }" : " }"),
           {{shape, x}}, dy, y, {dx}, 1e-12);
  }
}

Values Reduced(const std::string& operation, const Values& x) {
  return CallBuiltin("Reduction", {.prototxt = "reduction_param { operation: " + operation + " }",
                                   .inputs = {{{static_cast<int64_t>(x.size())}, x}}})
      .outputs[0];
}

TEST(ReductionTest, KeepDimsKeepsTheAxes) {
  const auto shape = [](const std::string& fields) {
    const LayerSample sample{.name = "x",
                             .prototxt = "reduction_param { " + fields + " }",
                             .inputs = {{.shape = {2, 3, 4}}}};
    return LayerCase(*TestRegistry().Find("Reduction"), sample, DType::kF32)
        .info()
        .outputs[0]
        .shape;
  };
  EXPECT_EQ(shape("axes: 1"), Shape({2, 4}));
  EXPECT_EQ(shape("axes: -1 axes: 0"), Shape({3}));
  EXPECT_EQ(shape("axes: 1 keep_dims: true"), Shape({2, 1, 4}));
  EXPECT_EQ(shape("axis: 1 keep_dims: true"), Shape({2, 1, 1}));
  EXPECT_EQ(shape("axes: 0 axes: 1 axes: 2"), Shape());
}

TEST(ReductionTest, NanAndInfinityAreKept) {
  EXPECT_TRUE(std::isnan(Reduced("MAX", {1, kNan, kInfinity})[0]));
  EXPECT_TRUE(std::isnan(Reduced("MIN", {1, kNan, -kInfinity})[0]));
  EXPECT_EQ(Reduced("MAX", {-kInfinity, -kInfinity}), (Values{-kInfinity}));
  EXPECT_EQ(Reduced("LOG_SUM_EXP", {kInfinity, 1, kInfinity}), (Values{kInfinity}));
  EXPECT_EQ(Reduced("LOG_SUM_EXP", {-kInfinity, -kInfinity}), (Values{-kInfinity}));
  EXPECT_TRUE(std::isnan(Reduced("LOG_SUM_EXP", {1, kNan})[0]));
  EXPECT_NEAR(Reduced("LOG_SUM_EXP", {1000, 1000, -kInfinity})[0], 1000 + std::log(2), 1e-3);
}

TEST(ReductionTest, OfNothingIsTheNeutralElement) {
  EXPECT_EQ(Reduced("SUM", {}), (Values{0}));
  EXPECT_EQ(Reduced("PROD", {}), (Values{1}));
  EXPECT_EQ(Reduced("MAX", {}), (Values{-kInfinity}));
  EXPECT_EQ(Reduced("MIN", {}), (Values{kInfinity}));
  EXPECT_EQ(Reduced("L2", {}), (Values{0}));
  EXPECT_EQ(Reduced("LOG_SUM_EXP", {}), (Values{-kInfinity}));
}

TEST(ReductionTest, ProductsOfZerosHaveGradients) {
  const auto gradient = [](const Values& x) {
    return CallBuiltin("Reduction", {.prototxt = "reduction_param { operation: PROD }",
                                     .inputs = {{{static_cast<int64_t>(x.size())}, x}},
                                     .output_grads = {{2}}})
        .input_grads[0];
  };
  EXPECT_EQ(gradient({3, 4, 5}), (Values{40, 30, 24}));
  EXPECT_EQ(gradient({3, 0, 5}), (Values{0, 30, 0}));
  EXPECT_EQ(gradient({0, 4, 0}), (Values{0, 0, 0}));
}

TEST(ReductionTest, TheFirstOfEqualMaximaGetsTheGradient) {
  const RunResult result =
      CallBuiltin("Reduction", {.prototxt = "reduction_param { operation: MAX axes: 0 }",
                                .inputs = {{{3, 2}, {1, 5, 7, 5, 7, 2}}},
                                .output_grads = {{10, 20}}});
  EXPECT_EQ(result.outputs[0], (Values{7, 5}));
  EXPECT_EQ(result.input_grads[0], (Values{0, 20, 10, 0, 0, 0}));
}

double BinaryOf(const std::string& operation, double a, double b) {
  return CallBuiltin("Binary", {.prototxt = "binary_param { operation: " + operation + " }",
                                .inputs = {{{1}, {a}}, {{1}, {b}}}})
      .outputs[0][0];
}

TEST(BinaryTest, SpecialValues) {
  EXPECT_EQ(BinaryOf("MOD", -7, 3), 2);
  EXPECT_EQ(BinaryOf("MOD", 7, -3), -2);
  EXPECT_EQ(BinaryOf("MOD", 6, 3), 0);
  EXPECT_EQ(BinaryOf("MOD", -0.5, 4), 3.5);
  EXPECT_EQ(BinaryOf("FMOD", -7, 3), -1);
  EXPECT_EQ(BinaryOf("FMOD", 7, -3), 1);
  EXPECT_EQ(BinaryOf("INTEGER_DIV", -7, 2), -3);
  EXPECT_EQ(BinaryOf("INTEGER_DIV", 16777215, 5), 3355443);
  EXPECT_EQ(BinaryOf("POW", -2, 3), -8);
  EXPECT_EQ(BinaryOf("POW", 0, 0), 1);
  EXPECT_EQ(BinaryOf("POW", 0, -1), kInfinity);
  EXPECT_TRUE(std::isnan(BinaryOf("POW", -8, 0.5)));
  for (const char* operation : {"MAX", "MIN"}) {
    EXPECT_TRUE(std::isnan(BinaryOf(operation, kNan, 1)));
    EXPECT_TRUE(std::isnan(BinaryOf(operation, 1, kNan)));
  }
  EXPECT_EQ(BinaryOf("DIV", 1, 0), kInfinity);
  EXPECT_EQ(BinaryOf("EQUAL", kNan, kNan), 0);
  EXPECT_EQ(BinaryOf("LESS_OR_EQUAL", 2, 2), 1);
  EXPECT_EQ(BinaryOf("GREATER_OR_EQUAL", 1, 2), 0);
  EXPECT_EQ(BinaryOf("AND", -2, 0.5), 1);
  EXPECT_EQ(BinaryOf("OR", 0, 0), 0);
  EXPECT_EQ(BinaryOf("XOR", 3, 4), 0);
  EXPECT_EQ(BinaryOf("XOR", 0, 4), 1);
}

TEST(BinaryTest, BitsAreThoseOfTwosComplement) {
  EXPECT_EQ(BinaryOf("BITWISE_AND", -1, 255), 255);
  EXPECT_EQ(BinaryOf("BITWISE_OR", -8, 3), -5);
  EXPECT_EQ(BinaryOf("BITWISE_XOR", 5, 1), 4);
  EXPECT_EQ(BinaryOf("BITWISE_XOR", -1, 5), -6);
  EXPECT_EQ(BinaryOf("BITWISE_OR", kNan, 3), 3);
  EXPECT_EQ(BinaryOf("BITWISE_OR", 1e30, 3), 3);
  EXPECT_EQ(BinaryOf("SHIFT_LEFT", 3, 4), 48);
  EXPECT_EQ(BinaryOf("SHIFT_LEFT", 1, 1e9), kInfinity);
  EXPECT_EQ(BinaryOf("SHIFT_RIGHT", 255, 4), 15);
  EXPECT_EQ(BinaryOf("SHIFT_RIGHT", -1, 4), -1);
  EXPECT_EQ(BinaryOf("SHIFT_RIGHT", 255, 1e9), 0);
}

TEST(BinaryTest, TheValueIsEitherOperand) {
  const auto call = [](const std::string& fields, const Values& dy) {
    return CallBuiltin("Binary",
                       {.prototxt = "binary_param { operation: DIV value: 8 " + fields + " }",
                        .inputs = {{{2}, {2, 4}}},
                        .output_grads = {dy}});
  };
  const RunResult second = call("", {1, 8});
  EXPECT_EQ(second.outputs[0], (Values{0.25, 0.5}));
  EXPECT_EQ(second.input_grads[0], (Values{0.125, 1}));
  const RunResult first = call("value_first: true", {1, 2});
  EXPECT_EQ(first.outputs[0], (Values{4, 2}));
  EXPECT_EQ(first.input_grads[0], (Values{-2, -1}));
}

TEST(BinaryTest, ZeroToAPowerHasAGradient) {
  const RunResult result = CallBuiltin("Binary", {.prototxt = "binary_param { operation: POW }",
                                                  .inputs = {{{3}, {0, 0, 2}}, {{3}, {2, 0, 0}}},
                                                  .output_grads = {{1, 1, 1}}});
  EXPECT_EQ(result.input_grads[0], (Values{0, 0, 0}));
  EXPECT_EQ(result.input_grads[1][0], 0);
  EXPECT_EQ(result.input_grads[1][1], 0);
  EXPECT_NEAR(result.input_grads[1][2], std::log(2), 1e-6);
}

TEST(BinaryTest, TheFirstOfEqualOperandsGetsTheGradient) {
  for (const char* operation : {"MAX", "MIN"}) {
    const RunResult result =
        CallBuiltin("Binary", {.prototxt = StrCat("binary_param { operation: ", operation, " }"),
                               .inputs = {{{1}, {3}}, {{1}, {3}}},
                               .output_grads = {{5}}});
    EXPECT_EQ(result.input_grads[0], (Values{5}));
    EXPECT_EQ(result.input_grads[1], (Values{0}));
  }
}

Values UnaryOf(const std::string& fields, const Values& x, DType dtype = DType::kF32) {
  return CallBuiltin("Unary", {.prototxt = "unary_param { operation: " + fields + " }",
                               .inputs = {{{static_cast<int64_t>(x.size())}, x}},
                               .dtype = dtype})
      .outputs[0];
}

TEST(UnaryTest, SpecialValues) {
  EXPECT_EQ(UnaryOf("ROUND", {0.5, 1.5, 2.5, -0.5, -1.5, 2.4}), (Values{0, 2, 2, 0, -2, 2}));
  EXPECT_EQ(UnaryOf("SIGN", {-3, 0, 0.25, kInfinity}), (Values{-1, 0, 1, 1}));
  EXPECT_TRUE(std::isnan(UnaryOf("SIGN", {kNan})[0]));
  const Values odd = {kInfinity, -kInfinity, kNan, 0, 5};
  EXPECT_EQ(UnaryOf("IS_INF", odd), (Values{1, 1, 0, 0, 0}));
  EXPECT_EQ(UnaryOf("IS_POSITIVE_INF", odd), (Values{1, 0, 0, 0, 0}));
  EXPECT_EQ(UnaryOf("IS_NEGATIVE_INF", odd), (Values{0, 1, 0, 0, 0}));
  EXPECT_EQ(UnaryOf("IS_NAN", odd), (Values{0, 0, 1, 0, 0}));
  EXPECT_EQ(UnaryOf("NOT", odd), (Values{0, 0, 0, 1, 0}));
  EXPECT_EQ(UnaryOf("SOFTPLUS", {200, -200}), (Values{200, 0}));
  EXPECT_EQ(UnaryOf("SHRINK alpha: 1.5 beta: 0.5", {-2, -1.5, 0, 1.5, 2}),
            (Values{-1.5, 0, 0, 0, 1.5}));
  EXPECT_EQ(UnaryOf("THRESHOLDED_RELU", {0.5, 1, 1.5}), (Values{0, 0, 1.5}));
  EXPECT_EQ(UnaryOf("SELU alpha: 2 beta: 3", {0, 1}), (Values{0, 3}));
}

TEST(UnaryTest, ErfIsExactFromEndToEnd) {
  Values x, expected;
  for (int i = -6000; i <= 6000; ++i) x.push_back(static_cast<float>(i * 1e-3));
  for (const double tiny : {1e-3, 1e-6, 1e-20, 1e-38}) x.push_back(static_cast<float>(tiny));
  const Values narrow = UnaryOf("ERF", x), wide = UnaryOf("ERF", x, DType::kF64);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(wide[i], std::erf(x[i]));
    EXPECT_NEAR(narrow[i], std::erf(x[i]), 4e-7 * std::abs(std::erf(x[i]))) << x[i];
  }
}

TEST(LogSoftmaxTest, LargeDifferencesDoNotUnderflow) {
  for (const bool contiguous : {true, false}) {
    const RunResult result = CallBuiltin(
        "LogSoftmax", {.inputs = {{contiguous ? Dims{1, 3} : Dims{1, 3, 1, 1}, {1000, 0, 1000}}},
                       .output_grads = {{1, 2, 3}}});
    EXPECT_NEAR(result.outputs[0][0], -std::log(2), 1e-6);
    EXPECT_NEAR(result.outputs[0][1], -1000 - std::log(2), 1e-3);
    EXPECT_EQ(result.input_grads[0], (Values{-2, 2, 0}));
  }
}

}  // namespace
}  // namespace crema::test
