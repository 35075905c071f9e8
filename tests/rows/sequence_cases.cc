#include "rows/sequence_cases.h"

#include <algorithm>
#include <vector>

#include "core/strings.h"

namespace crema::test {

RowCase AttentionCase(const LayerType&, Draw& draw) {
  const int64_t kv_heads = draw.Int(1, 3), heads = kv_heads * (draw.Chance(70) ? 1 : 2);
  const int64_t items = draw.Batch(), size = draw.Int(1, 40);
  // Rows are for some queries and keys only.
  const int64_t keys = draw.Chance(20) ? draw.Int(1, 31) : draw.Int(32, 150);
  const int64_t queries = draw.Chance(70) ? keys : draw.Int(1, 200);
  RowCase result;
  result.sample.prototxt =
      StrCat("attention_param { num_heads: ", heads, " num_kv_heads: ", kv_heads,
             draw.Chance(50) ? " causal: true" : "", draw.Chance(30) ? " scale: -0.4" : "", " }");
  if (queries == keys && draw.Chance(60)) {
    result.sample.inputs = {{.shape = {items, keys, (heads + 2 * kv_heads) * size}}};
  } else {
    const int64_t value_size = draw.Int(1, 40);
    result.sample.inputs = {{.shape = {items, queries, heads * size}},
                            {.shape = {items, keys, kv_heads * size}},
                            {.shape = {items, keys, kv_heads * value_size}}};
  }
  const int64_t mask = draw.Int(1, 10);
  if (mask == 1) result.sample.inputs.push_back({.shape = {queries, keys}});
  if (mask == 2) result.sample.inputs.push_back({.shape = {items, 1, keys}});
  if (mask == 3) result.sample.inputs.push_back({.shape = {1, heads, queries, 1}});
  result.forward_terms = size + keys;
  result.input_terms = result.forward_terms;
  result.amplification = 3;  // rounding of what exp is taken of
  return result;
}

RowCase MatMulCase(const LayerType&, Draw& draw) {
  const bool transpose_a = draw.Chance(40), transpose_b = draw.Chance(40);
  const auto extent = [&] { return draw.Chance(20) ? draw.Int(1, 15) : draw.Int(16, 70); };
  int64_t m = extent(), n = extent(), k = extent();
  if (draw.Chance(10)) k = draw.Int(256, 600);
  // Axes before the matrices: of both, repeated or missing.
  std::vector<int64_t> a, b;
  for (int64_t axes = draw.Int(0, 2); axes > 0; --axes) {
    const int64_t count = draw.Batch();
    a.push_back(draw.Chance(80) ? count : 1);
    b.push_back(draw.Chance(80) ? count : 1);
  }
  if (draw.Chance(20)) b.clear();
  a.insert(a.end(), {transpose_a ? k : m, transpose_a ? m : k});
  b.insert(b.end(), {transpose_b ? n : k, transpose_b ? k : n});
  RowCase result;
  result.sample.prototxt =
      StrCat("matmul_param { transpose_a: ", transpose_a, " transpose_b: ", transpose_b,
             draw.Chance(30) ? " scale: 0.6" : "", " }");
  result.sample.inputs = {{.shape = a}, {.shape = b}};
  result.forward_terms = k;
  result.input_terms = std::max(m, n) * 16;  // of up to 16 repetitions
  return result;
}

}  // namespace crema::test
