// Attention of opset 23, which joining makes of older graphs too.
#include <cmath>

#include "core/strings.h"
#include "onnx/import_blocks.h"
#include "onnx/import_convert.h"
#include "onnx/import_fold.h"

namespace crema {
namespace {

using onnx::TensorProto;
using Dims = std::vector<int64_t>;

// N x heads x T x D as N x T x (heads * D).
OnnxBlob MergeHeads(NodeImport& node, const OnnxBlob& x) {
  const OnnxBlob moved = PermuteBlob(node, x, {0, 2, 1, 3});
  return ReshapeBlob(node, moved, {x.shape[0], x.shape[2], x.shape[1] * x.shape[3]});
}

OnnxBlob SplitHeads(NodeImport& node, const OnnxBlob& x, int64_t heads) {
  const OnnxBlob apart = ReshapeBlob(node, x, {x.shape[0], x.shape[1], heads, x.shape[2] / heads});
  return PermuteBlob(node, apart, {0, 2, 1, 3});
}

// A mask of truths becomes one that is added: 0 where true, -inf where false.
OnnxBlob AddedMask(NodeImport& node, size_t input, int64_t queries, int64_t keys) {
  OnnxBlob mask = node.In(input);
  if (mask.type == TensorProto::BOOL) mask = node.Add("Log", {mask});
  Dims dims = DimsOf(mask);
  if (dims.size() < 2) dims.insert(dims.begin(), 2 - dims.size(), 1);
  mask = ReshapeBlob(node, mask, dims);
  // Missing keys at the end are hidden.
  const int64_t missing = keys - dims.back();
  if (dims.back() != 1 && missing > 0) {
    Dims after(dims.size(), 0);
    after.back() = missing;
    mask =
        PadBlob(node, mask, Dims(dims.size(), 0), after, -std::numeric_limits<float>::infinity());
  }
  dims = DimsOf(mask);
  dims[dims.size() - 2] = queries;
  dims[dims.size() - 1] = keys;
  return ExpandBlob(node, mask, dims);
}

void RefuseAttention(const NodeImport& node) {
  if (node.Float("softcap", 0) != 0) node.Refuse("has a softcap");
  if (node.Wants(3)) node.Refuse("gives the products of queries and keys");
  if (node.Has(6)) node.Refuse("has lengths of its keys (nonpad_kv_seqlen)");
}

void ConvertAttention(NodeImport& node) {
  RefuseAttention(node);
  const OnnxBlob q = node.In(0);
  OnnxBlob k = node.In(1);
  OnnxBlob v = node.In(2);
  const bool has_heads = q.shape.axes() == 4;
  if (!has_heads && q.shape.axes() != 3) node.Refuse("takes three or four axes");
  const int64_t heads = has_heads ? q.shape[1] : node.Int("q_num_heads", 0);
  const int64_t kv_heads = has_heads ? k.shape[1] : node.Int("kv_num_heads", heads);
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0) node.Refuse("has no number of heads");
  if (node.Has(4) || node.Wants(1)) {  // keys and values of earlier calls come first
    if (!has_heads) k = SplitHeads(node, k, kv_heads);
    if (!has_heads) v = SplitHeads(node, v, kv_heads);
    const auto append = [&](size_t past, const OnnxBlob& next) {
      if (!node.Has(past)) return next;
      const OnnxBlob before = node.In(past);
      return node.Add("Concat", {before, next},
                      [](LayerParameter* layer) { layer->mutable_concat_param()->set_axis(2); });
    };
    k = append(4, k);
    v = append(5, v);
    node.Output(1, k);
    node.Output(2, v);
  }
  const auto merged = [&](const OnnxBlob& x) {
    return x.shape.axes() == 4 ? MergeHeads(node, x) : x;
  };
  std::vector<OnnxBlob> bottoms = {merged(q), merged(k), merged(v)};
  const int64_t queries = bottoms[0].shape[1];
  const int64_t keys = bottoms[1].shape[1];
  const bool causal = node.Int("is_causal", 0) != 0;
  if (causal && node.Has(4)) node.Refuse("is causal and has earlier keys");
  if (node.Has(3)) bottoms.push_back(AddedMask(node, 3, queries, keys));
  const OnnxBlob y = node.Add("Attention", bottoms, [&](LayerParameter* layer) {
    AttentionParameter* param = layer->mutable_attention_param();
    param->set_num_heads(static_cast<uint32_t>(heads));
    if (kv_heads != heads) param->set_num_kv_heads(static_cast<uint32_t>(kv_heads));
    if (causal) param->set_causal(true);
    if (node.HasAttribute("scale")) param->set_scale(node.Float("scale", 1));
  });
  node.Output(0, has_heads ? SplitHeads(node, y, heads) : y);
}

}  // namespace

void AddAttentionConverters(ConverterTable* table) { (*table)["Attention"] = ConvertAttention; }

}  // namespace crema
