// Attention, as products, Softmax and moves of axes.
#include <cmath>
#include <limits>

#include "crema.pb.h"
#include "layers/attention/attention_geometry.h"
#include "onnx/export_layer.h"

namespace crema {
namespace {

// Heads of `x` (items x places x heads D) as items x kv_heads x group x places x D.
std::string Heads(LayerExport& e, const std::string& x, const AttentionSize& size, int64_t places,
                  int64_t group, int64_t width) {
  const Shape from{size.items, places, size.kv_heads * group * width};
  const Shape split{size.items, places, size.kv_heads, group, width};
  return e.Transpose(e.Reshape(x, from, split, e.open[0]), {0, 2, 3, 1, 4});
}

// Adds the mask, whose missing axes and those of 1 are repeated.
std::string Masked(LayerExport& e, const AttentionSize& size, const std::string& scores) {
  const int index = AttentionMask(e.in.size());
  std::string sum = scores;
  if (index >= 0) {
    const auto i = static_cast<size_t>(index);
    std::string mask = e.in[i];
    const Shape& shape = e.shape(i);
    if (shape.axes() == 3) {
      mask = e.Unsqueeze(mask, {1, 2});
    } else if (shape.axes() == 4 && shape[1] == 1) {
      mask = e.Unsqueeze(mask, {2});
    } else if (shape.axes() == 4) {
      const Shape split{shape[0], size.kv_heads, size.group(), shape[2], shape[3]};
      mask = e.Reshape(mask, shape, split, e.open[i]);
    }
    sum = e.Add("Add", {sum, mask});
  }
  if (!e.param.attention_param().causal()) return sum;
  std::vector<float> later(static_cast<size_t>(size.products()), 0);
  for (int64_t q = 0; q < size.queries; ++q) {
    for (int64_t k = q + 1; k < size.keys; ++k) {
      later[static_cast<size_t>(q * size.keys + k)] = -std::numeric_limits<float>::infinity();
    }
  }
  return e.Add("Add", {sum, e.graph.Floats({size.queries, size.keys}, later)});
}

// A query that sees no key has weights of 0.
std::string AttentionWeights(LayerExport& e, const std::string& scores) {
  const std::string weights = e.Add("Softmax", {scores}, {{"axis", -1}});
  if (AttentionMask(e.in.size()) < 0) return weights;
  const std::string best = OnnxReduce(&e.graph, "ReduceMax", scores, {4}, true);
  const std::string none = e.Add("IsInf", {best}, {{"detect_positive", 0}});
  return e.Add("Where", {none, e.graph.Scalar(0), weights});
}

void Attention(LayerExport& e) {
  const AttentionSize size = AttentionSizeOf(e.layer, e.specs);
  std::string q = e.in[0], k = e.in[0], v = e.in[0];
  if (size.packed) {
    const std::vector<int64_t> widths = {size.heads * size.size, size.kv_heads * size.size,
                                         size.kv_heads * size.size};
    const std::vector<std::string> parts =
        e.graph.AddMany("Split", {e.in[0], e.graph.Ints(widths)}, 3, {{"axis", 2}});
    q = parts[0];
    k = parts[1];
    v = parts[2];
  } else {
    k = e.in[1];
    v = e.in[2];
  }
  const AttentionParameter& p = e.param.attention_param();
  const double scale =
      p.has_scale() ? double{p.scale()} : 1 / std::sqrt(static_cast<double>(size.size));
  q = Heads(e, q, size, size.queries, size.group(), size.size);
  k = e.Transpose(Heads(e, k, size, size.keys, 1, size.size), {0, 1, 2, 4, 3});
  v = Heads(e, v, size, size.keys, 1, size.value_size);
  const std::string scores = Masked(e, size, e.Affine(e.Add("MatMul", {q, k}), scale, 0));
  const std::string y = e.Add("MatMul", {AttentionWeights(e, scores), v});
  const Shape split{size.items, size.queries, size.kv_heads, size.group(), size.value_size};
  e.out = {e.Reshape(e.Transpose(y, {0, 3, 1, 2, 4}), split, e.out_shape(), e.open[0])};
}

}  // namespace

void AddAttentionEmitters(EmitterTable* table) { table->insert({{"Attention", Attention}}); }

}  // namespace crema
