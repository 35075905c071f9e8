// Attention against plain loops, and queries without a key.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "crema.pb.h"
#include "support/layer_expect.h"
#include "support/layer_fixture.h"
#include "support/net.h"

namespace crema::test {
namespace {

using test::kInfinity;

struct Sizes {
  int64_t items, queries, keys, heads, kv_heads, size, value_size;
};

// q, k and v have heads one after the other on the last axis; `mask` is queries x keys or empty.
Values NaiveAttention(const Sizes& e, const Values& q, const Values& k, const Values& v,
                      const Values& mask, bool causal, double scale) {
  Values y;
  const auto at = [](const Values& x, int64_t i) { return x[static_cast<size_t>(i)]; };
  for (int64_t n = 0; n < e.items; ++n) {
    for (int64_t t = 0; t < e.queries; ++t) {
      for (int64_t h = 0; h < e.heads; ++h) {
        const int64_t kv = h * e.kv_heads / e.heads;
        Values weights;
        double total = 0;
        for (int64_t s = 0; s < e.keys; ++s) {
          double product = 0;
          for (int64_t d = 0; d < e.size; ++d) {
            product += at(q, ((n * e.queries + t) * e.heads + h) * e.size + d) *
                       at(k, ((n * e.keys + s) * e.kv_heads + kv) * e.size + d);
          }
          product *= scale;
          if (!mask.empty()) product += at(mask, t * e.keys + s);
          weights.push_back(causal && s > t ? 0 : std::exp(product));
          total += weights.back();
        }
        for (int64_t d = 0; d < e.value_size; ++d) {
          double sum = 0;
          for (int64_t s = 0; s < e.keys; ++s) {
            sum += at(weights, s) * at(v, ((n * e.keys + s) * e.kv_heads + kv) * e.value_size + d);
          }
          y.push_back(total == 0 ? 0 : sum / total);
        }
      }
    }
  }
  return y;
}

Values DrawWave(int64_t count, double seed) {
  Values values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(std::sin(seed + 1.7 * static_cast<double>(i)));
  }
  return values;
}

void ExpectF64Near(const Values& got, const Values& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12) << i;
}

RunResult CallAttention(const LayerCall& call) {
  return CallLayer(*TestRegistry().Find("Attention"), call);
}

TEST(Attention, GroupedMaskedCausalIsWhatPlainLoopsCompute) {
  const Sizes e{2, 3, 5, 4, 2, 3, 2};
  const Values q = DrawWave(2 * 3 * 12, 1), k = DrawWave(2 * 5 * 6, 2), v = DrawWave(2 * 5 * 4, 3);
  const Values mask = DrawWave(15, 4);
  const RunResult result = CallAttention(
      {.prototxt = "attention_param { num_heads: 4 num_kv_heads: 2 causal: true scale: 0.9 }",
       .inputs = {{{2, 3, 12}, q}, {{2, 5, 6}, k}, {{2, 5, 4}, v}, {{3, 5}, mask}},
       .dtype = DType::kF64});
  const double scale = static_cast<double>(0.9F);
  ExpectF64Near(result.outputs[0], NaiveAttention(e, q, k, v, mask, true, scale));
}

TEST(Attention, OneBottomIsQueriesKeysAndValues) {
  const Sizes e{2, 4, 4, 2, 2, 3, 3};
  const Values q = DrawWave(48, 1), k = DrawWave(48, 2), v = DrawWave(48, 3);
  Values packed;
  for (int64_t row = 0; row < 8; ++row) {
    for (const Values* part : {&q, &k, &v}) {
      packed.insert(packed.end(), part->begin() + row * 6, part->begin() + (row + 1) * 6);
    }
  }
  const RunResult result = CallAttention({.prototxt = "attention_param { num_heads: 2 }",
                                          .inputs = {{{2, 4, 18}, packed}},
                                          .dtype = DType::kF64});
  ExpectF64Near(result.outputs[0], NaiveAttention(e, q, k, v, {}, false, 1 / std::sqrt(3.0)));
}

TEST(Attention, AQueryThatSeesNothingGivesZeros) {
  const Values mask = {-kInfinity, -kInfinity, 0, -kInfinity};
  const RunResult result = CallAttention({.inputs = {{{1, 2, 2}, {1, 2, 3, 4}},
                                                     {{1, 2, 2}, {5, 6, 7, 8}},
                                                     {{1, 2, 1}, {3, 5}},
                                                     {{2, 2}, mask}},
                                          .output_grads = {{1, 1}}});
  EXPECT_EQ(result.outputs[0], (Values{0, 3}));
  EXPECT_EQ(result.input_grads[0], (Values{0, 0, 0, 0}));
  EXPECT_EQ(result.input_grads[2], (Values{1, 0}));
}

TEST(Attention, LargeProductsDoNotOverflow) {
  const RunResult result =
      CallAttention({.prototxt = "attention_param { scale: 1000 }",
                     .inputs = {{{1, 1, 1}, {10}}, {{1, 2, 1}, {10, 9}}, {{1, 2, 1}, {2, 7}}},
                     .output_grads = {{1}}});
  EXPECT_EQ(result.outputs[0], (Values{2}));
  EXPECT_EQ(result.input_grads[0], (Values{0}));
}

TEST(Attention, NothingIsSavedWithoutBackward) {
  const std::string net =
      "layer { name: \"x\" type: \"Input\" top: \"x\" input_param { shape { dim: 2 dim: 64 dim: 6 "
      "} } }\n"
      "layer { name: \"a\" type: \"Attention\" bottom: \"x\" top: \"y\" }\n";
  const auto plan = PlanText(net, TEST, {.backward = false});
  EXPECT_LT(plan->arena_bytes, int64_t{2} * 64 * 64 * 4);
}

}  // namespace
}  // namespace crema::test
