// Attention: y = softmax(scale Q K^T + mask) V, for each item and head.
//   P = softmax(...):  dV = P^T dy;  dP = dy V^T;  dS = P (dP - sum dP P);
//   dQ = scale dS K;   dK = scale dS^T Q
// A. Vaswani et al.: Attention Is All You Need, NeurIPS 2017 (arXiv:1706.03762). Fewer heads of
// keys and values: J. Ainslie et al.: GQA, EMNLP 2023 (arXiv:2305.13245). P is saved for backward;
// without a backward pass, each thread holds P of one head. Threads process (item, head) pairs
// forward, and (item, head of keys) pairs backward, since dK and dV are sums over the heads that
// share them. A query that attends to no key gives 0.
#include <algorithm>
#include <cmath>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/attention/attention_geometry.h"
#include "layers/attention/attention_head.h"
#include "layers/attention/attention_implementations.h"
#include "math/scratch.h"

namespace crema {
namespace {

class Attention final : public Layer {
 public:
  explicit Attention(const LayerParameter& param);

  LayerInfo Infer(const InferContext& context) const override;
  void Forward(const ForwardArgs& args) const override;
  void Backward(const BackwardArgs& args) const override;
  size_t ForwardScratch(const InferContext& context, const LayerInfo&, int threads) const override;
  size_t BackwardScratch(const InferContext& context, const LayerInfo&, int threads) const override;

 private:
  bool Causal() const { return param().attention_param().causal(); }
};

Attention::Attention(const LayerParameter& param) : Layer(param) {
  const AttentionParameter& attention = this->param().attention_param();
  constexpr uint32_t kMost = 1 << 16;
  if (attention.num_heads() == 0 || attention.num_heads() > kMost) {
    FailField(*this, "attention_param.num_heads",
              StrCat("num_heads is ", attention.num_heads(), ", expected 1 to ", kMost));
  }
  if (attention.num_kv_heads() > 0 && attention.num_heads() % attention.num_kv_heads() != 0) {
    FailField(*this, "attention_param.num_kv_heads",
              StrCat("num_kv_heads is ", attention.num_kv_heads(), ", which does not divide ",
                     "num_heads, ", attention.num_heads()));
  }
  if (!std::isfinite(attention.scale())) {
    FailField(*this, "attention_param.scale", "scale is not a finite number");
  }
}

LayerInfo Attention::Infer(const InferContext& context) const {
  const AttentionSize e = AttentionSizeOf(*this, context.inputs);
  const int mask = AttentionMask(context.inputs.size());
  const DType dtype = context.inputs[0].dtype;
  if (mask >= 0) MaskStrides(*this, e, context.inputs[static_cast<size_t>(mask)].shape);
  LayerInfo info;
  info.outputs = {{{e.items, e.queries, e.output_stride()}, dtype}};
  info.saved = {{{e.items * e.heads, e.queries, e.keys}, dtype}};
  info.backward_reads_input.assign(e.packed ? 1 : 3, true);
  info.reach = Reach::kSample;
  if (mask >= 0) {
    const Shape& shape = context.inputs[static_cast<size_t>(mask)].shape;
    info.shared_inputs.assign(static_cast<size_t>(mask), false);
    info.shared_inputs.push_back(shape.axes() == 2 || shape[0] != e.items);
    info.gradient_forbidden.assign(static_cast<size_t>(mask), false);
    info.gradient_forbidden.push_back(true);
  }
  info.macs = e.items * e.heads * e.products() * (e.size + e.value_size);
  return info;
}

size_t PieceBytes(DType dtype, int64_t count) {
  return dtype == DType::kF32 ? ScratchBytes<float>(count) : ScratchBytes<double>(count);
}

// P of one head for each worker, used if P is not saved.
size_t Attention::ForwardScratch(const InferContext& context, const LayerInfo&, int threads) const {
  const AttentionSize e = AttentionSizeOf(*this, context.inputs);
  const int workers = ParallelWorkers(threads, e.items * e.heads, 1);
  return PieceBytes(context.dtype, e.products()) * static_cast<size_t>(workers) + kScratchSlack;
}

// dP of one head for each worker.
size_t Attention::BackwardScratch(const InferContext& context, const LayerInfo&,
                                  int threads) const {
  const AttentionSize e = AttentionSizeOf(*this, context.inputs);
  const int workers = ParallelWorkers(threads, e.items * e.kv_heads, 1);
  return PieceBytes(context.dtype, e.products()) * static_cast<size_t>(workers) + kScratchSlack;
}

void Attention::Forward(const ForwardArgs& args) const {
  const AttentionSize e = AttentionSizeOf(*this, args.inputs);
  DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const AttentionTensors<T> in = AttentionTensorsOf<T>(e, args.inputs);
    const AttentionMasks<T> masks(*this, e, args.inputs);
    T* saved = args.saved[0].empty() ? nullptr : args.saved[0].data<T>();
    const int threads = args.context.threads();
    const int64_t jobs = e.items * e.heads;
    const int64_t piece = static_cast<int64_t>(ScratchBytes<T>(e.products()) / sizeof(T));
    T* scratch =
        saved != nullptr
            ? nullptr
            : ScratchCutter(args.scratch).Take<T>(piece * ParallelWorkers(threads, jobs, 1));
    ParallelFor(threads, jobs, 1, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t job = begin; job < end; ++job) {
        const int64_t item = job / e.heads, head = job % e.heads;
        const HeadOffsets at(e, item, head);
        T* p = saved != nullptr ? saved + at.saved : scratch + worker * piece;
        AttentionForward<T>(e, in, at, T(AttentionScale(*this, e)), Causal(), masks.Of(item, head),
                            p, args.outputs[0].data<T>());
      }
    });
  });
}

void Attention::Backward(const BackwardArgs& args) const {
  const AttentionSize e = AttentionSizeOf(*this, args.inputs);
  DispatchFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
    const AttentionTensors<T> in = AttentionTensorsOf<T>(e, args.inputs);
    const AttentionGradients<T> out = AttentionGradientsOf<T>(e, args.input_grads);
    const int threads = args.context.threads();
    const int64_t jobs = e.items * e.kv_heads;
    const int64_t piece = static_cast<int64_t>(ScratchBytes<T>(e.products()) / sizeof(T));
    T* scratch = ScratchCutter(args.scratch).Take<T>(piece * ParallelWorkers(threads, jobs, 1));
    ParallelFor(threads, jobs, 1, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t job = begin; job < end; ++job) {
        for (int64_t g = 0; g < e.group(); ++g) {
          const HeadOffsets at(e, job / e.kv_heads, job % e.kv_heads * e.group() + g);
          AttentionBackward<T>(e, in, at, T(AttentionScale(*this, e)), T(g == 0 ? 0 : 1),
                               args.saved[0].data<T>() + at.saved, args.output_grads[0].data<T>(),
                               out, scratch + worker * piece);
        }
      }
    });
  });
}

std::vector<LayerSample> Samples() {
  const auto param = [](const std::string& fields) { return "attention_param { " + fields + " }"; };
  const SampleInput q{.shape = {2, 3, 4}}, k{.shape = {2, 5, 4}}, v{.shape = {2, 5, 6}};
  const SampleInput one_q{.shape = {1, 3, 4}};
  return {
      {.name = "self", .prototxt = param("num_heads: 2"), .inputs = {{.shape = {2, 4, 12}}}},
      {.name = "self_causal",
       .prototxt = param("num_heads: 2 causal: true"),
       .inputs = {{.shape = {2, 4, 12}}}},
      {.name = "self_grouped",
       .prototxt = param("num_heads: 4 num_kv_heads: 2"),
       .inputs = {{.shape = {1, 4, 16}}}},
      {.name = "self_mask",
       .prototxt = param("num_heads: 2"),
       .inputs = {{.shape = {2, 4, 12}}, {.shape = {4, 4}}}},
      {.name = "cross", .prototxt = param("num_heads: 2"), .inputs = {q, k, v}},
      {.name = "one_head_scale", .prototxt = param("scale: 0.7"), .inputs = {q, k, v}},
      {.name = "grouped",
       .prototxt = param("num_heads: 4 num_kv_heads: 2"),
       .inputs = {q, {.shape = {2, 5, 2}}, {.shape = {2, 5, 6}}}},
      {.name = "causal_more_keys",
       .prototxt = param("num_heads: 2 causal: true"),
       .inputs = {q, k, v}},
      {.name = "causal_more_queries",
       .prototxt = param("num_heads: 2 causal: true"),
       .inputs = {{.shape = {2, 5, 4}}, {.shape = {2, 3, 4}}, {.shape = {2, 3, 6}}}},
      {.name = "mask_of_items",
       .prototxt = param("num_heads: 2"),
       .inputs = {q, k, v, {.shape = {2, 1, 5}}}},
      {.name = "mask_of_heads",
       .prototxt = param("num_heads: 2 causal: true"),
       .inputs = {q, k, v, {.shape = {1, 2, 3, 5}}}},
      {.name = "no_items",
       .prototxt = param("num_heads: 2"),
       .inputs = {{.shape = {0, 3, 4}}, {.shape = {0, 5, 4}}, {.shape = {0, 5, 4}}}},
      {.name = "no_keys",
       .prototxt = param("num_heads: 2"),
       .inputs = {one_q, {.shape = {1, 0, 4}}, {.shape = {1, 0, 4}}}},
      {.name = "no_queries",
       .prototxt = param("num_heads: 2"),
       .inputs = {{.shape = {1, 0, 4}}, {.shape = {1, 3, 4}}, {.shape = {1, 3, 4}}}},
  };
}

std::vector<BadSample> BadSamples() {
  const std::string two = "attention_param { num_heads: 2 }";
  return {
      {"attention_param { num_heads: 0 }", {{1, 2, 6}}, "num_heads is 0"},
      {"attention_param { num_heads: 4 num_kv_heads: 3 }",
       {{1, 2, 6}},
       "does not divide num_heads"},
      {"attention_param { scale: nan }", {{1, 2, 6}}, "scale is not a finite number"},
      {two, {{1, 2, 7}}, "divide into 6 heads"},
      {two, {{1, 2}}, "3 axes"},
      {two, {{1, 2, 4}, {2, 2, 4}, {1, 2, 4}}, "items"},
      {two, {{1, 2, 4}, {1, 2, 4}, {1, 3, 4}}, "a value for each key"},
      {two, {{1, 2, 5}, {1, 2, 4}, {1, 2, 4}}, "of the queries must divide into 2 heads"},
      {two, {{1, 2, 4}, {1, 2, 6}, {1, 2, 4}}, "of the keys must be 4"},
      {two, {{1, 2, 4}, {1, 2, 4}, {1, 2, 3}}, "of the values must divide"},
      {two, {{2, 3, 4}, {2, 5, 4}, {2, 5, 4}, {5, 3}}, "the mask must be 3x5"},
      {two, {{2, 3, 6}, {3}}, "the mask must be 3x3"},
  };
}

}  // namespace

void RegisterAttention(Registry& registry) {
  LayerType type;
  type.name = "Attention";
  type.traits = {.fits_16_bits = true, .multiplies_matrices = true};
  type.category = "attention";
  type.origin = "Crema";
  type.summary = "Scaled dot-product attention of several heads, also grouped, causal or masked.";
  type.formula = "y = softmax(scale Q K^T + mask) V, for each item and head";
  type.param_fields = {"attention_param"};
  type.inputs = {1, 4};
  type.outputs = {1, 1};
  type.input_docs = {
      "queries: N x Tq x (num_heads * D); or, if it is the only one besides a mask, queries, keys "
      "and values one after the other on the last axis, N x T x 3C for an equal number of heads",
      "keys: N x Tk x (num_kv_heads * D)",
      "values: N x Tk x (num_kv_heads * Dv)",
      "mask (optional): added before the softmax, -inf hides a key; Tq x Tk, N x Tq x Tk or "
      "N x num_heads x Tq x Tk, 1 instead of N or num_heads: the same for all. Gets no gradient",
  };
  type.output_docs = {"y: N x Tq x (num_heads * Dv), heads one after the other on the last axis"};
  type.differences = {
      "Caffe has no attention. causal lets query i see keys 0 to i, counted from the first, also "
      "where Tq and Tk differ. A query that sees no key gives zeros."};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Attention>(p); };
#ifdef CREMA_HAVE_ONEDNN
  type.implementations = {OneDnnAttentionImplementation()};
#endif
  type.samples = Samples();
  type.bad_samples = BadSamples();
  registry.Add(std::move(type));
}

}  // namespace crema
