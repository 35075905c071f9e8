// Layers that choose elements by indices or ranges, against plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/strings.h"
#include "support/layer_expect.h"

namespace crema::test {
namespace {

using Dims = std::vector<int64_t>;

int64_t CountOf(const Dims& dims) {
  int64_t count = 1;
  for (const int64_t d : dims) count *= d;
  return count;
}

// Numbers that all differ.
Values Ladder(const Dims& dims, double step = 1) {
  Values values;
  for (int64_t i = 0; i < CountOf(dims); ++i) {
    values.push_back(step * static_cast<double>(i * 7 % 31 + i));
  }
  return values;
}

// Returns the coordinates of element i.
Dims At(int64_t i, const Dims& dims) {
  Dims at(dims.size());
  for (size_t a = dims.size(); a-- > 0; i /= dims[a]) at[a] = i % dims[a];
  return at;
}
int64_t Place(const Dims& at, const Dims& dims) {
  int64_t place = 0;
  for (size_t a = 0; a < dims.size(); ++a) place = place * dims[a] + at[a];
  return place;
}

double Number(const Values& values, int64_t i) { return values[static_cast<size_t>(i)]; }

TEST(GatherTest, TakesElementsAlongAnAxis) {
  const Dims x = {2, 4, 3}, k = {2, 5, 2};
  const Values values = Ladder(x);
  Values index, expected;
  for (int64_t i = 0; i < CountOf(k); ++i) {
    index.push_back(static_cast<double>(i * 3 % 8 - 4));  // -4..3
    Dims at = At(i, k);
    at[1] = static_cast<int64_t>(index.back()) + (index.back() < 0 ? 4 : 0);
    expected.push_back(Number(values, Place(at, x)));
  }
  const RunResult result = CallBuiltin(
      "Gather",
      {.prototxt = "gather_param { mode: ELEMENTS axis: 1 }", .inputs = {{x, values}, {k, index}}});
  EXPECT_EQ(result.outputs[0], expected);
}

TEST(GatherTest, TakesSlicesInBatches) {
  const Dims x = {2, 3, 4, 2}, k = {2, 5, 2};
  const Values values = Ladder(x);
  Values index, expected;
  for (int64_t n = 0; n < 2; ++n) {
    for (int64_t p = 0; p < 5; ++p) {
      const int64_t row = (n + p) % 3, column = (n + 3 * p) % 4;
      index.push_back(static_cast<double>(row - 3));  // from the end
      index.push_back(static_cast<double>(column));
      for (int64_t i = 0; i < 2; ++i) {
        expected.push_back(Number(values, Place({n, row, column, i}, x)));
      }
    }
  }
  const RunResult result = CallBuiltin(
      "Gather",
      {.prototxt = "gather_param { mode: ND batch_dims: 1 }", .inputs = {{x, values}, {k, index}}});
  EXPECT_EQ(result.outputs[0], expected);
}

TEST(GatherTest, NamesAnIndexOutsideItsAxis) {
  ExpectContains(ErrorOf("Gather", {.prototxt = "gather_param { mode: ND }",
                                    .inputs = {{{3, 4}, Ladder({3, 4})}, {{2, 2}, {2, 3, -3, 4}}}}),
                 "index 4 at element 3 of \"in1\" (sample 1 of the batch) is outside -4..3");
  ExpectContains(ErrorOf("Gather", {.inputs = {{{3, 4}, Ladder({3, 4})}, {{1}, {-4}}}}),
                 "is outside -3..2");
}

// Effect of an update, for the reference below.
using Meet = std::function<double(double, double)>;

void ExpectScatter(const std::string& reduction, const Meet& meet) {
  const Dims x = {3, 4}, k = {5, 4};
  const Values values = Ladder(x, 0.25);
  Values expected = values, index, updates;
  for (int64_t i = 0; i < CountOf(k); ++i) {
    const int64_t row = i * 5 % 3;
    index.push_back(static_cast<double>(i % 2 == 0 ? row : row - 3));
    updates.push_back(0.5 * static_cast<double>(i * 11 % 17) - 2);
    double& to = expected[static_cast<size_t>(row * 4 + i % 4)];
    to = meet(to, updates.back());
  }
  const std::string fields = "scatter_param { reduction: " + reduction + " axis: 0 ";
  const RunResult elements = CallBuiltin(
      "Scatter", {.prototxt = fields + "}", .inputs = {{x, values}, {k, index}, {k, updates}}});
  ExpectNear(elements.outputs[0], expected, 1e-5);
  // The same by coordinates.
  Values coordinates;
  for (int64_t i = 0; i < CountOf(k); ++i) {
    coordinates.push_back(Number(index, i));
    coordinates.push_back(static_cast<double>(i % 4));
  }
  const RunResult nd =
      CallBuiltin("Scatter", {.prototxt = "scatter_param { mode: ND reduction: " + reduction + " }",
                              .inputs = {{x, values}, {{20, 2}, coordinates}, {{20}, updates}}});
  ExpectNear(nd.outputs[0], expected, 1e-5);
}

TEST(ScatterTest, MeetsElementsInTheOrderOfTheUpdates) {
  ExpectScatter("NONE", [](double, double update) { return update; });
  ExpectScatter("ADD", [](double to, double update) { return to + update; });
  ExpectScatter("MUL", [](double to, double update) { return to * update; });
  ExpectScatter("MAX", [](double to, double update) { return std::max(to, update); });
  ExpectScatter("MIN", [](double to, double update) { return std::min(to, update); });
}

TEST(ScatterTest, SendsTheGradientToTheLastUpdate) {
  const RunResult result =
      CallBuiltin("Scatter", {.inputs = {{{4}, {1, 2, 3, 4}}, {{3}, {1, 3, 1}}, {{3}, {5, 6, 7}}},
                              .output_grads = {{10, 20, 30, 40}}});
  EXPECT_EQ(result.outputs[0], (Values{1, 7, 3, 6}));
  EXPECT_EQ(result.input_grads[0], (Values{10, 0, 30, 0}));
  EXPECT_EQ(result.input_grads[2], (Values{0, 40, 20}));
}

TEST(ScatterTest, DividesAProductWithZeros) {
  const auto gradients = [](const Values& updates) {
    return CallBuiltin("Scatter", {.prototxt = "scatter_param { reduction: MUL }",
                                   .inputs = {{{1}, {2}}, {{3}, {0, 0, 0}}, {{3}, updates}},
                                   .output_grads = {{10}}})
        .input_grads;
  };
  EXPECT_EQ(gradients({3, 0, 5})[2], (Values{0, 300, 0}));
  EXPECT_EQ(gradients({3, 0, 5})[0], (Values{0}));
  EXPECT_EQ(gradients({0, 0, 5})[2], (Values{0, 0, 0}));
}

TEST(ScatterTest, LeavesEverythingWithoutUpdates) {
  const RunResult result =
      CallBuiltin("Scatter", {.prototxt = "scatter_param { mode: ND }",
                              .inputs = {{{2, 2}, {1, 2, 3, 4}}, {{0, 1}, {}}, {{0, 2}, {}}},
                              .output_grads = {{5, 6, 7, 8}}});
  EXPECT_EQ(result.outputs[0], (Values{1, 2, 3, 4}));
  EXPECT_EQ(result.input_grads[0], (Values{5, 6, 7, 8}));
}

// NumPy's x[start:end:step] of 0..size-1.
Values Sliced(int64_t size, int64_t start, int64_t end, int64_t step) {
  const auto border = [&](int64_t position) {
    if (position < 0) position += size;
    if (position < 0) return step > 0 ? int64_t{0} : int64_t{-1};
    return std::min(position, step > 0 ? size : size - 1);
  };
  Values values;
  for (int64_t i = border(start); step > 0 ? i < border(end) : i > border(end); i += step) {
    values.push_back(static_cast<double>(i));
  }
  return values;
}

TEST(StridedSliceTest, TakesTheElementsOfNumPy) {
  for (const int64_t size : {1, 2, 5}) {
    Values x;
    for (int64_t i = 0; i < size; ++i) x.push_back(static_cast<double>(i));
    for (int64_t start = -7; start <= 7; ++start) {
      for (int64_t end = -7; end <= 7; ++end) {
        for (const int64_t step : {-6, -2, -1, 1, 2, 6}) {
          const RunResult result = CallBuiltin(
              "StridedSlice", {.prototxt = StrCat("strided_slice_param { start: ", start,
                                                  " end: ", end, " step: ", step, " }"),
                               .inputs = {{{size}, x}}});
          ASSERT_EQ(result.outputs[0], Sliced(size, start, end, step))
              << size << " " << start << " " << end << " " << step;
        }
      }
    }
  }
}

TEST(TopKTest, RanksTheFirstOfEqualOnesFirstAndNaNLast) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto positions = [&](const std::string& fields) {
    return CallBuiltin("TopK", {.prototxt = "top_k_param { " + fields + " }",
                                .inputs = {{{6}, {2, nan, 5, 2, 5, 1}}},
                                .outputs = 2})
        .outputs[1];
  };
  EXPECT_EQ(positions("k: 6"), (Values{2, 4, 0, 3, 5, 1}));
  EXPECT_EQ(positions("k: 6 largest: false"), (Values{5, 0, 3, 2, 4, 1}));
  EXPECT_EQ(positions("k: 3 sorted: false"), (Values{0, 2, 4}));
}

TEST(OneHotTest, LeavesOutIndicesOutside) {
  const RunResult result =
      CallBuiltin("OneHot", {.prototxt = "one_hot_param { depth: 3 on_value: 5 off_value: 2 }",
                             .inputs = {{{6}, {-4, -3, -1, 0, 2.7, 3}}}});
  EXPECT_EQ(result.outputs[0], (Values{2, 2, 2, 5, 2, 2, 2, 2, 5, 5, 2, 2, 2, 2, 5, 2, 2, 2}));
}

TEST(CumSumTest, AddsFromEitherEnd) {
  const Values x = {1, 2, 4, 8};
  const auto sums = [&](const std::string& fields) {
    return CallBuiltin("CumSum",
                       {.prototxt = "cum_sum_param { " + fields + " }", .inputs = {{{4}, x}}})
        .outputs[0];
  };
  EXPECT_EQ(sums(""), (Values{1, 3, 7, 15}));
  EXPECT_EQ(sums("exclusive: true"), (Values{0, 1, 3, 7}));
  EXPECT_EQ(sums("reverse: true"), (Values{15, 14, 12, 8}));
  EXPECT_EQ(sums("reverse: true exclusive: true"), (Values{14, 12, 8, 0}));
}

TEST(TriluTest, KeepsOneSideOfADiagonal) {
  const Dims dims = {3, 5};
  const Values x = Ladder(dims, 0.5);
  for (const bool upper : {true, false}) {
    for (int64_t k = -6; k <= 6; ++k) {
      Values expected;
      for (int64_t i = 0; i < 15; ++i) {
        const int64_t right = i % 5 - i / 5;
        expected.push_back((upper ? right >= k : right <= k) ? Number(x, i) : 0);
      }
      const RunResult result =
          CallBuiltin("Trilu", {.prototxt = StrCat("trilu_param { upper: ", upper, " k: ", k, " }"),
                                .inputs = {{dims, x}}});
      EXPECT_EQ(result.outputs[0], expected) << upper << " " << k;
    }
  }
}

TEST(PadTest, WrapsAndCuts) {
  const Values x = {0, 1, 2, 3, 4};
  const auto padded = [&](const std::string& fields) {
    return CallBuiltin("Pad",
                       {.prototxt = "pad_param { axis: 0 " + fields + " }", .inputs = {{{5}, x}}})
        .outputs[0];
  };
  for (int64_t before = 0; before < 12; ++before) {
    Values expected;
    for (int64_t i = 0; i < before + 12; ++i) {
      expected.push_back(static_cast<double>(((i - before) % 5 + 5) % 5));
    }
    EXPECT_EQ(padded(StrCat("mode: WRAP pad_before: ", before, " pad_after: 7")), expected);
  }
  EXPECT_EQ(padded("pad_before: -1 pad_after: -3"), (Values{1}));
  EXPECT_EQ(padded("pad_before: -2 pad_after: 2 value: 9"), (Values{2, 3, 4, 9, 9}));
  EXPECT_EQ(padded("mode: REFLECT pad_before: -1 pad_after: 3"), (Values{1, 2, 3, 4, 3, 2, 1}));
  EXPECT_EQ(padded("mode: REPLICATE pad_before: 2 pad_after: -2"), (Values{0, 0, 0, 1, 2}));
  EXPECT_EQ(padded("mode: WRAP pad_before: 2 pad_after: -2"), (Values{1, 2, 0, 1, 2}));
}

// A product of matrices, a diagonal and axes of size 1, by loops over all labels.
TEST(EinsumTest, SumsOverTheLabelsThatTheOutputLacks) {
  const Values a = Ladder({2, 3, 4}, 0.1), b = Ladder({4, 3}, 0.2);
  Values expected;
  for (int64_t n = 0; n < 2; ++n) {
    for (int64_t j = 0; j < 3; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < 3; ++i) {
        for (int64_t k = 0; k < 4; ++k) {
          sum += Number(a, (n * 3 + i) * 4 + k) * Number(b, k * 3 + j);
        }
      }
      expected.push_back(sum);
    }
  }
  const auto call = [](const std::string& equation, std::vector<Blob> inputs) {
    return CallBuiltin("Einsum", {.prototxt = "einsum_param { equation: '" + equation + "' }",
                                  .inputs = std::move(inputs)})
        .outputs[0];
  };
  ExpectNear(call("nik,kj->nj", {{{2, 3, 4}, a}, {{4, 3}, b}}), expected, 1e-4);
  EXPECT_EQ(call("ii->i", {{{2, 2}, {1, 2, 3, 4}}}), (Values{1, 4}));
  EXPECT_EQ(call("ii", {{{2, 2}, {1, 2, 3, 4}}}), (Values{5}));
  EXPECT_EQ(call("ba", {{{2, 2}, {1, 2, 3, 4}}}), (Values{1, 3, 2, 4}));  // sorted letters
  EXPECT_EQ(call("...i,...i", {{{2, 2}, {1, 2, 3, 4}}, {{1, 2}, {1, 10}}}), (Values{21, 43}));
}

}  // namespace
}  // namespace crema::test
