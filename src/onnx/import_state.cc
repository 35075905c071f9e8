// Operators of decoders that keep a state from call to call: LinearAttention and TensorScatter.
#include <algorithm>
#include <cmath>

#include "core/strings.h"
#include "onnx/import_blocks.h"
#include "onnx/import_convert.h"
#include "onnx/import_fold.h"

namespace crema {
namespace {

using B = BinaryParameter;

constexpr int64_t kMostSteps = 1024;

// N x T x (heads * D) as N x heads x T x D.
OnnxBlob Heads(NodeImport& node, const OnnxBlob& x, int64_t heads, const char* what) {
  if (x.shape.axes() != 3 || heads < 1 || x.shape[2] % heads != 0) {
    node.Refuse(
        StrCat(what, " is ", ToString(x.shape), ", which does not divide into ", heads, " heads"));
  }
  const OnnxBlob apart = ReshapeBlob(node, x, {x.shape[0], x.shape[1], heads, x.shape[2] / heads});
  return PermuteBlob(node, apart, {0, 2, 1, 3});
}

OnnxBlob ScaledProduct(NodeImport& node, const OnnxBlob& a, const OnnxBlob& b, float scale = 1) {
  return node.Add("MatMul", {a, b}, [&](LayerParameter* layer) {
    if (scale != 1) layer->mutable_matmul_param()->set_scale(scale);
  });
}

// N x heads x D x 1 of a step of N x heads x T x D.
OnnxBlob ColumnOf(NodeImport& node, const OnnxBlob& x, int64_t step) {
  const OnnxBlob cut = CutBlob(node, x, 2, step, 1);
  return ReshapeBlob(node, cut, {x.shape[0], x.shape[1], x.shape[3], 1});
}

// Sizes and inputs of LinearAttention, by head.
struct LinearAttentionNode {
  OnnxBlob q, k, v;
  std::optional<OnnxBlob> decay, beta;
  int64_t heads = 1;     // of queries
  int64_t kv_heads = 1;  // of keys and values
  float scale = 1;
};

LinearAttentionNode ReadLinear(NodeImport& node) {
  LinearAttentionNode parts;
  const std::string rule = node.String("update_rule", "gated_delta");
  const bool gates = rule == "gated" || rule == "gated_delta";
  const bool corrects = rule == "delta" || rule == "gated_delta";
  if (!gates && !corrects && rule != "linear") node.Refuse(StrCat("has the update_rule ", rule));
  if (gates != node.Has(4) || corrects != node.Has(5)) {
    node.Refuse(StrCat("has other inputs than the update_rule ", rule, " needs"));
  }
  parts.heads = node.Int("q_num_heads", 0);
  parts.kv_heads = node.Int("kv_num_heads", 0);
  if (parts.heads < 1 || parts.kv_heads < 1 || parts.heads % parts.kv_heads != 0) {
    node.Refuse("has no number of heads");
  }
  parts.q = Heads(node, node.In(0), parts.heads, "its query");
  parts.k = Heads(node, node.In(1), parts.kv_heads, "its key");
  parts.v = Heads(node, node.In(2), parts.kv_heads, "its value");
  if (gates) parts.decay = Heads(node, node.In(4), parts.kv_heads, "its decay");
  if (corrects) {
    const OnnxBlob beta = node.In(5);
    const int64_t given = beta.shape.axes() == 3 ? beta.shape[2] : 0;
    if (given != 1 && given != parts.kv_heads) node.Refuse("has a beta of another size");
    parts.beta = Heads(node, beta, given, "its beta");
  }
  const int64_t steps = parts.q.shape[2];
  if (parts.k.shape[2] != steps || parts.v.shape[2] != steps || steps > kMostSteps) {
    node.Refuse(StrCat("has queries, keys and values of different lengths, or more than ",
                       kMostSteps, " steps"));
  }
  const float scale = node.Float("scale", 0);
  parts.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<float>(parts.q.shape[3]));
  return parts;
}

// Step by step: the state S (N x heads x size of keys x size of values) becomes
// exp(decay) S + k (beta (v - k S)), or + k v without correction; the output is scale q S.
void ConvertLinearAttention(NodeImport& node) {
  const LinearAttentionNode parts = ReadLinear(node);
  const int64_t batch = parts.q.shape[0];
  const int64_t group = parts.heads / parts.kv_heads;
  const int64_t value_size = parts.v.shape[3];
  if (BoundedCount({batch, parts.kv_heads, parts.k.shape[3], value_size}) > kMostMadeElements) {
    node.Refuse("has too large a state");
  }
  OnnxBlob state = node.Has(3) ? node.In(3)
                               : node.AddConstant(BroadcastTensor(
                                     MakeFloats({1, 1, 1, 1}, {0}),
                                     {batch, parts.kv_heads, parts.k.shape[3], value_size}));
  std::vector<OnnxBlob> outputs;
  for (int64_t t = 0; t < parts.q.shape[2]; ++t) {
    if (parts.decay) {
      const OnnxBlob factor = node.Add("Exp", {ColumnOf(node, *parts.decay, t)});
      state = BinaryBlob(node, B::MUL, state, factor);
    }
    OnnxBlob value = CutBlob(node, parts.v, 2, t, 1);
    if (parts.beta) {
      const OnnxBlob known = ScaledProduct(node, CutBlob(node, parts.k, 2, t, 1), state);
      value = BinaryBlob(node, B::MUL, BinaryBlob(node, B::SUB, value, known),
                         CutBlob(node, *parts.beta, 2, t, 1));
    }
    state = BinaryBlob(node, B::ADD, state, ScaledProduct(node, ColumnOf(node, parts.k, t), value));
    // The heads of queries that share a state are rows of one product.
    const OnnxBlob query = ReshapeBlob(node, CutBlob(node, parts.q, 2, t, 1),
                                       {batch, parts.kv_heads, group, parts.q.shape[3]});
    outputs.push_back(ReshapeBlob(node, ScaledProduct(node, query, state, parts.scale),
                                  {batch, 1, parts.heads * value_size}));
  }
  if (outputs.empty()) node.Refuse("has no steps");
  node.Output(0, outputs.size() == 1 ? outputs[0] : ConcatBlob(node, outputs, 1));
  node.Output(1, state);
}

// The places that TensorScatter writes to, as samples x steps x (sample, place).
OnnxBlob WrittenPlaces(NodeImport& node, int64_t samples, int64_t steps, int64_t size) {
  std::vector<float> offsets(static_cast<size_t>(steps));
  for (size_t i = 0; i < offsets.size(); ++i) offsets[i] = static_cast<float>(i);
  std::vector<float> owners;
  for (int64_t n = 0; n < samples; ++n)
    owners.insert(owners.end(), offsets.size(), static_cast<float>(n));
  OnnxBlob places = node.AddConstant(MakeFloats({1, steps, 1}, std::move(offsets)));
  if (node.Has(2)) {
    const OnnxBlob first = ReshapeBlob(node, node.In(2), {samples, 1, 1});
    places = BinaryBlob(node, B::ADD, first, places);
  }
  if (node.String("mode", "linear") == "circular") {
    places = BinaryBlob(node, B::MOD, places, static_cast<float>(size));
  }
  places = ExpandBlob(node, places, {samples, steps, 1});
  const OnnxBlob owner = node.AddConstant(MakeFloats({samples, steps, 1}, std::move(owners)));
  return ConcatBlob(node, {owner, places}, 2);
}

// Writes steps into a cache, for each sample from a place of its own on.
void ConvertTensorScatter(NodeImport& node) {
  const OnnxBlob past = node.In(0);
  const OnnxBlob update = node.In(1);
  const int axes = past.shape.axes();
  const auto axis =
      static_cast<int>(CanonicalAxes(node, {node.Int("axis", -2)}, static_cast<size_t>(axes))[0]);
  if (axis < 1 || update.shape.axes() != axes) node.Refuse("writes along the batch");
  const std::string mode = node.String("mode", "linear");
  if (mode != "linear" && mode != "circular") node.Refuse(StrCat("has the mode ", mode));
  const int64_t samples = past.shape[0];
  if (node.Has(2) && node.ShapeOf(2).count() != samples) node.Refuse("has other write_indices");
  const int64_t steps = update.shape[axis];
  if (BoundedCount({samples, steps}) > kMostMadeElements) node.Refuse("is too large");
  Dims order = {0, axis};  // the axis becomes the second one
  for (int i = 1; i < axes; ++i) {
    if (i != axis) order.push_back(i);
  }
  const OnnxBlob places = WrittenPlaces(node, samples, steps, past.shape[axis]);
  const OnnxBlob written = node.Add(
      "Scatter", {PermuteBlob(node, past, order), places, PermuteBlob(node, update, order)},
      [](LayerParameter* layer) {
        layer->mutable_scatter_param()->set_mode(ScatterParameter::ND);
      });
  node.Output(0, PermuteBlobBack(node, WithType(written, past.type), order));
}

}  // namespace

void AddStateConverters(ConverterTable* table) {
  (*table)["LinearAttention"] = ConvertLinearAttention;
  (*table)["TensorScatter"] = ConvertTensorScatter;
}

}  // namespace crema
