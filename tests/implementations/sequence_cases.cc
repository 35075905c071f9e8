#include "implementations/sequence_cases.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/strings.h"

namespace crema::test {

ImplementationCase AttentionCase(const LayerType&, Draw& draw) {
  const int64_t kv_heads = draw.Int(1, 3), heads = kv_heads * (draw.Chance(70) ? 1 : 2);
  const int64_t items = draw.Batch(), size = draw.Int(1, 40);
  // Implementations are for some queries and keys only.
  const int64_t keys = draw.Chance(20) ? draw.Int(1, 31) : draw.Int(32, 150);
  const int64_t queries = draw.Chance(70) ? keys : draw.Int(1, 200);
  ImplementationCase result;
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

// RNN, LSTM and GRU. Sequences begin at any step, each stream's at its own.
ImplementationCase RecurrentCase(const LayerType& type, Draw& draw) {
  const int64_t steps = draw.Chance(30) ? draw.Int(32, 36) : draw.Int(1, 14),
                streams = draw.Chance(30) ? 1 : draw.Int(2, 20);
  const int64_t inputs = draw.Int(1, 40),
                size = draw.Chance(20) ? draw.Int(1, 30) : draw.Int(30, 99);
  const bool exposed = draw.Chance(30), x_static = draw.Chance(25);
  const char* direction = draw.Pick({"FORWARD", "FORWARD", "REVERSE", "BIDIRECTIONAL"});
  const int64_t directions = direction == std::string("BIDIRECTIONAL") ? 2 : 1;
  const int states = type.name == "LSTM" ? 2 : 1;
  ImplementationCase result;
  result.sample.prototxt =
      StrCat("recurrent_param { num_output: ", size, " direction: ", direction,
             " expose_hidden: ", exposed,
             type.name == "GRU" && draw.Chance(10) ? " reset_after: false }" : " }");
  std::vector<SampleInput>& blobs = result.sample.inputs;
  blobs = {{.shape = {steps, streams, inputs}}};
  if (type.name != "GRU" || x_static || draw.Chance(70)) {
    blobs.push_back({.shape = {steps, streams}, .low = 0, .high = 1, .integer = draw.Chance(80)});
  }
  if (x_static) blobs.push_back({.shape = {streams, draw.Int(1, 9)}});
  for (int s = 0; exposed && s < states; ++s) {
    blobs.push_back({.shape = {directions, streams, size}});
  }
  if (exposed) result.sample.outputs = 1 + states;
  result.forward_terms = inputs + size;
  result.input_terms = 4 * size;
  result.parameter_terms = steps * streams;
  // With larger weights the rounding error of a step would grow in later steps.
  result.parameter_factor = 0x1p-4;
  result.amplification = 4;
  return result;
}

ImplementationCase MatMulCase(const LayerType&, Draw& draw) {
  const bool transpose_a = draw.Chance(40), transpose_b = draw.Chance(40);
  const auto draw_size = [&] { return draw.Chance(20) ? draw.Int(1, 15) : draw.Int(16, 70); };
  int64_t m = draw_size(), n = draw_size(), k = draw_size();
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
  ImplementationCase result;
  result.sample.prototxt =
      StrCat("matmul_param { transpose_a: ", transpose_a, " transpose_b: ", transpose_b,
             draw.Chance(30) ? " scale: 0.6" : "", " }");
  result.sample.inputs = {{.shape = a}, {.shape = b}};
  result.forward_terms = k;
  result.input_terms = std::max(m, n) * 16;  // of up to 16 repetitions
  return result;
}

}  // namespace crema::test
