#include "rows/sequence_cases.h"

#include <algorithm>

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

}  // namespace crema::test
