// Attention of opset 23, which joining makes of older graphs too.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/strings.h"
#include "onnx/import_blocks.h"
#include "onnx/import_convert.h"
#include "onnx/import_fold.h"

namespace crema {
namespace {

using onnx::TensorProto;

constexpr float kHidden = -std::numeric_limits<float>::infinity();

// N x heads x T x D as N x T x (heads * D).
OnnxBlob MergeHeads(NodeImport& node, const OnnxBlob& x) {
  if (x.shape.axes() == 3) return x;
  const OnnxBlob moved = PermuteBlob(node, x, {0, 2, 1, 3});
  return ReshapeBlob(node, moved, {x.shape[0], x.shape[2], x.shape[1] * x.shape[3]});
}

OnnxBlob SplitHeads(NodeImport& node, const OnnxBlob& x, int64_t heads) {
  if (x.shape.axes() == 4) return x;
  if (x.shape[2] % heads != 0) node.Refuse(StrCat("does not divide into ", heads, " heads"));
  const OnnxBlob apart = ReshapeBlob(node, x, {x.shape[0], x.shape[1], heads, x.shape[2] / heads});
  return PermuteBlob(node, apart, {0, 2, 1, 3});
}

// Parts of an Attention node; keys and values include those of earlier calls.
struct AttentionNode {
  OnnxBlob q, k, v;
  bool has_heads = false;  // inputs of four axes
  int64_t heads = 1;
  int64_t kv_heads = 1;
  int64_t queries = 0;
  int64_t keys = 0;
  float scale = 1;
};

OnnxBlob Append(NodeImport& node, size_t past, const OnnxBlob& next) {
  if (!node.Has(past)) return next;
  const OnnxBlob before = node.In(past);
  return ConcatBlob(node, {before, next}, 2);
}

AttentionNode ReadAttention(NodeImport& node) {
  AttentionNode parts{node.In(0), node.In(1), node.In(2)};
  const int axes = parts.q.shape.axes();
  if (axes != 3 && axes != 4) node.Refuse("takes three or four axes");
  if (node.Int("crema_transposed_keys", 0) != 0) {  // by joining
    parts.k = PermuteBlob(node, parts.k, axes == 3 ? Dims{0, 2, 1} : Dims{0, 1, 3, 2});
  }
  if (parts.k.shape.axes() != axes || parts.v.shape.axes() != axes) {
    node.Refuse("has keys or values of another number of axes");
  }
  parts.has_heads = axes == 4;
  parts.heads = parts.has_heads ? parts.q.shape[1] : node.Int("q_num_heads", 0);
  parts.kv_heads = parts.has_heads ? parts.k.shape[1] : node.Int("kv_num_heads", parts.heads);
  if (parts.heads < 1 || parts.kv_heads < 1 || parts.heads % parts.kv_heads != 0) {
    node.Refuse("has no number of heads");
  }
  if (node.Has(4) || node.Has(5) || node.Wants(1) || node.Wants(2)) {
    parts.k = Append(node, 4, SplitHeads(node, parts.k, parts.kv_heads));
    parts.v = Append(node, 5, SplitHeads(node, parts.v, parts.kv_heads));
    node.Output(1, parts.k);
    node.Output(2, parts.v);
  }
  parts.queries = parts.q.shape[parts.has_heads ? 2 : 1];
  parts.keys = parts.k.shape[parts.k.shape.axes() == 4 ? 2 : 1];
  const int64_t size = parts.has_heads ? parts.q.shape[3] : parts.q.shape[2] / parts.heads;
  parts.scale = node.Float("scale", 1 / std::sqrt(static_cast<float>(size)));
  return parts;
}

// A mask of truths becomes one that is added: 0 where true, -inf where false. Missing keys at the
// end are hidden.
OnnxBlob AddedMask(NodeImport& node, int64_t keys) {
  OnnxBlob mask = node.In(3);
  if (mask.type == TensorProto::BOOL) mask = node.Add("Log", {mask});
  Dims dims = DimsOf(mask);
  if (dims.size() < 2) dims.insert(dims.begin(), 2 - dims.size(), 1);
  // Three axes are heads x queries x keys.
  if (dims.size() == 3) dims.insert(dims.begin(), 1);
  mask = ReshapeBlob(node, mask, dims);
  const int64_t missing = keys - dims.back();
  if (missing <= 0) return mask;
  Dims after(dims.size(), 0);
  after.back() = missing;
  return PadBlob(node, mask, Dims(dims.size(), 0), after, kHidden);
}

// The part of the mask that the attributes state, for each sample if lengths are given; nothing:
// none.
std::optional<OnnxTensor> StatedMask(const NodeImport& node, const AttentionNode& parts) {
  const bool causal = node.Int("is_causal", 0) != 0;
  const int64_t left = node.Int("left_window_size", -1);
  const int64_t right = node.Int("right_window_size", -1);
  const Dims lengths = node.Has(6) ? node.Ints(6, "nonpad_kv_seqlen") : Dims{};
  if (!causal && left < 0 && right < 0 && lengths.empty()) return std::nullopt;
  const int64_t past = node.Has(4) ? node.ShapeOf(4)[2] : 0;
  const int64_t samples = std::max<int64_t>(static_cast<int64_t>(lengths.size()), 1);
  if (BoundedCount({samples, parts.queries, parts.keys}) > kMostMadeElements) {
    node.Refuse("has too large a mask");
  }
  std::vector<float> values;
  for (int64_t n = 0; n < samples; ++n) {
    const int64_t length = lengths.empty() ? parts.keys : lengths[static_cast<size_t>(n)];
    const int64_t offset = lengths.empty() || node.Has(4) ? past : length - parts.queries;
    for (int64_t i = 0; i < parts.queries; ++i) {
      for (int64_t j = 0; j < parts.keys; ++j) {
        const int64_t ahead = j - i - offset;
        const bool hidden = j >= length || (causal && ahead > 0) || (left >= 0 && -ahead > left) ||
                            (right >= 0 && ahead > right);
        values.push_back(hidden ? kHidden : 0);
      }
    }
  }
  if (lengths.empty()) return MakeFloats({parts.queries, parts.keys}, std::move(values));
  return MakeFloats({samples, 1, parts.queries, parts.keys}, std::move(values));
}

// The whole mask; nothing: none. The layer itself takes a plain causal one.
std::optional<OnnxBlob> MaskOf(NodeImport& node, const AttentionNode& parts, bool* causal) {
  *causal = node.Int("is_causal", 0) != 0 && node.Int("left_window_size", -1) < 0 &&
            node.Int("right_window_size", -1) < 0 && !node.Has(3) && !node.Has(4) && !node.Has(6);
  if (*causal) return std::nullopt;
  const auto stated = StatedMask(node, parts);
  std::optional<OnnxBlob> mask;
  if (node.Has(3)) mask = AddedMask(node, parts.keys);
  if (!stated) return mask;
  const OnnxBlob constant = node.AddConstant(*stated);
  return mask ? BinaryBlob(node, BinaryParameter::ADD, *mask, constant) : constant;
}

// Each head of keys or values as often as heads of queries use it.
OnnxBlob RepeatHeads(NodeImport& node, const OnnxBlob& x, int64_t times) {
  if (times == 1) return x;
  const Dims dims = DimsOf(x);
  OnnxBlob y = ReshapeBlob(node, x, {dims[0], dims[1], 1, dims[2], dims[3]});
  y = ExpandBlob(node, y, {dims[0], dims[1], times, dims[2], dims[3]});
  return ReshapeBlob(node, y, {dims[0], dims[1] * times, dims[2], dims[3]});
}

// Attention of single layers, for what the Attention layer lacks: softcap, and the products as an
// output.
void ConvertInSteps(NodeImport& node, const AttentionNode& parts) {
  const int64_t times = parts.heads / parts.kv_heads;
  const OnnxBlob q = SplitHeads(node, parts.q, parts.heads);
  const OnnxBlob k = RepeatHeads(node, SplitHeads(node, parts.k, parts.kv_heads), times);
  const OnnxBlob v = RepeatHeads(node, SplitHeads(node, parts.v, parts.kv_heads), times);
  const int64_t mode = node.Int("qk_matmul_output_mode", 0);
  OnnxBlob products = node.Add("MatMul", {q, k}, [&](LayerParameter* layer) {
    layer->mutable_matmul_param()->set_transpose_b(true);
    layer->mutable_matmul_param()->set_scale(parts.scale);
  });
  if (mode == 0) node.Output(3, products);
  if (const float cap = node.Float("softcap", 0); cap > 0) {
    products = PowerBlob(node, products, 1, 1 / cap, 0);
    products = PowerBlob(node, node.Add("TanH", {products}), 1, cap, 0);
  }
  if (mode == 1) node.Output(3, products);
  bool causal = false;
  auto mask = MaskOf(node, parts, &causal);
  if (causal) mask = node.AddConstant(*StatedMask(node, parts));
  if (mask) products = BinaryBlob(node, BinaryParameter::ADD, products, *mask);
  if (mode == 2) node.Output(3, products);
  OnnxBlob shares = node.Add("Softmax", {products}, [](LayerParameter* layer) {
    layer->mutable_softmax_param()->set_axis(3);
  });
  if (mask) {  // a query that sees no key gives zeros
    const OnnxBlob seen = BinaryBlob(
        node, BinaryParameter::GREATER,
        ReduceBlob(node, ReductionParameter::MAX, *mask, {mask->shape.axes() - 1}), kHidden);
    const OnnxBlob zero = node.AddConstant(MakeFloats({}, {0}));
    shares = node.Add("Where", {seen, shares, zero});
  }
  if (mode == 3) node.Output(3, shares);
  const OnnxBlob y = node.Add("MatMul", {shares, v});
  node.Output(0, parts.has_heads ? y : MergeHeads(node, y));
}

void ConvertAttention(NodeImport& node) {
  const AttentionNode parts = ReadAttention(node);
  if (node.Float("softcap", 0) > 0 || node.Wants(3)) return ConvertInSteps(node, parts);
  bool causal = false;
  auto mask = MaskOf(node, parts, &causal);
  std::vector<OnnxBlob> bottoms = {MergeHeads(node, parts.q), MergeHeads(node, parts.k),
                                   MergeHeads(node, parts.v)};
  if (parts.heads == parts.kv_heads) {
    if (const auto packed = PackedBlob(node, bottoms)) bottoms = {*packed};
  }
  if (mask) {
    Dims dims = DimsOf(*mask);
    dims[dims.size() - 2] = parts.queries;
    dims[dims.size() - 1] = parts.keys;
    bottoms.push_back(ExpandBlob(node, *mask, dims));
  }
  const OnnxBlob y = node.Add("Attention", bottoms, [&](LayerParameter* layer) {
    AttentionParameter* param = layer->mutable_attention_param();
    param->set_num_heads(static_cast<uint32_t>(parts.heads));
    if (parts.kv_heads != parts.heads) {
      param->set_num_kv_heads(static_cast<uint32_t>(parts.kv_heads));
    }
    if (causal) param->set_causal(true);
    if (node.HasAttribute("scale")) param->set_scale(parts.scale);
  });
  node.Output(0, parts.has_heads ? SplitHeads(node, y, parts.heads) : y);
}

// Cosines or sines by batch, step, 1 and half of the rotated size.
OnnxBlob RotaryCache(NodeImport& node, size_t input, int64_t half) {
  OnnxBlob cache = node.In(input);
  if (node.Has(3)) cache = node.Add("Gather", {cache, node.In(3)});
  if (cache.shape.axes() != 3 || cache.shape[2] != half) node.Refuse("has caches of another size");
  return ReshapeBlob(node, cache, {cache.shape[0], cache.shape[1], 1, half});
}

// Every second element from `first` on.
OnnxBlob EverySecond(NodeImport& node, const OnnxBlob& x, int64_t first) {
  return node.Add("StridedSlice", {x}, [&](LayerParameter* layer) {
    StridedSliceParameter* param = layer->mutable_strided_slice_param();
    param->add_axes(3);
    param->add_start(first);
    param->add_end(x.shape[3]);
    param->add_step(2);
  });
}

OnnxBlob ConcatLast(NodeImport& node, const std::vector<OnnxBlob>& parts) {
  return ConcatBlob(node, parts, parts[0].shape.axes() - 1);
}

void ConvertRotaryEmbedding(NodeImport& node) {
  const OnnxBlob in = node.In(0);
  const bool has_heads = in.shape.axes() == 4;
  const int64_t heads = has_heads ? in.shape[1] : node.Int("num_heads", 0);
  if ((!has_heads && in.shape.axes() != 3) || heads < 1) node.Refuse("has no number of heads");
  // Batch, steps, heads, size of a head.
  const OnnxBlob x =
      has_heads ? PermuteBlob(node, in, {0, 2, 1, 3})
                : ReshapeBlob(node, in, {in.shape[0], in.shape[1], heads, in.shape[2] / heads});
  int64_t size = node.Int("rotary_embedding_dim", 0);
  if (size == 0) size = x.shape[3];
  if (size < 2 || size % 2 != 0 || size > x.shape[3]) node.Refuse(StrCat("rotates ", size));
  const OnnxBlob rotated = CutBlob(node, x, 3, 0, size);
  const bool interleaved = node.Int("interleaved", 0) != 0;
  const OnnxBlob first =
      interleaved ? EverySecond(node, rotated, 0) : CutBlob(node, rotated, 3, 0, size / 2);
  const OnnxBlob second =
      interleaved ? EverySecond(node, rotated, 1) : CutBlob(node, rotated, 3, size / 2, size / 2);
  const OnnxBlob cosine = RotaryCache(node, 1, size / 2);
  const OnnxBlob sine = RotaryCache(node, 2, size / 2);
  using B = BinaryParameter;
  const auto times = [&](const OnnxBlob& a, const OnnxBlob& b) {
    return BinaryBlob(node, B::MUL, a, b);
  };
  OnnxBlob real = BinaryBlob(node, B::SUB, times(first, cosine), times(second, sine));
  OnnxBlob imaginary = BinaryBlob(node, B::ADD, times(first, sine), times(second, cosine));
  if (interleaved) {
    Dims apart = DimsOf(real);
    apart.push_back(1);
    real = ReshapeBlob(node, real, apart);
    imaginary = ReshapeBlob(node, imaginary, apart);
  }
  OnnxBlob y = ReshapeBlob(node, ConcatLast(node, {real, imaginary}), DimsOf(rotated));
  if (size < x.shape[3]) {
    y = ConcatLast(node, {y, CutBlob(node, x, 3, size, x.shape[3] - size)});
  }
  node.Output(0, has_heads ? PermuteBlob(node, y, {0, 2, 1, 3}) : ReshapeBlob(node, y, DimsOf(in)));
}

}  // namespace

void AddAttentionConverters(ConverterTable* table) {
  (*table)["Attention"] = ConvertAttention;
  (*table)["RotaryEmbedding"] = ConvertRotaryEmbedding;
}

}  // namespace crema
