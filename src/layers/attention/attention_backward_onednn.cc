// Backward pass of implementation "onednn" of Attention; the formulas are in attention.cc. One
// thread sums dK and dV over blocks of queries and over the heads that share them.
#include <algorithm>

#include "core/parallel_for.h"
#include "layers/attention/attention_head.h"
#include "layers/attention/attention_onednn.h"
#include "layers/attention/attention_powers.h"
#include "math/scratch.h"

namespace crema::attention {
namespace {

// Memory of one thread; a name with prefix d is the gradient of the rest.
struct Pieces {
  Pieces(const AttentionSize& e, size_t product_bytes, ScratchCutter cutter)
      : query(cutter.Take<float>(e.queries * e.size)),
        key(cutter.Take<float>(e.keys * e.size)),
        value(cutter.Take<float>(e.keys * e.value_size)),
        dy(cutter.Take<float>(e.queries * e.value_size)),
        dp(cutter.Take<float>(e.products())),
        dquery(cutter.Take<float>(e.queries * e.size)),
        dkey(cutter.Take<float>(e.keys * e.size)),
        dvalue(cutter.Take<float>(e.keys * e.value_size)),
        product(cutter.Take<std::byte>(static_cast<int64_t>(product_bytes))) {}
  static size_t Bytes(const AttentionSize& e, size_t product_bytes) {
    return 2 * (ScratchBytes<float>(e.queries * e.size) + ScratchBytes<float>(e.keys * e.size) +
                ScratchBytes<float>(e.keys * e.value_size)) +
           ScratchBytes<float>(e.queries * e.value_size) + ScratchBytes<float>(e.products()) +
           ScratchBytes<std::byte>(static_cast<int64_t>(product_bytes)) + kScratchSlack;
  }
  float *query, *key, *value, *dy, *dp, *dquery, *dkey, *dvalue;
  std::byte* product;
};

struct Job {
  const AttentionSize& e;
  const AttentionTensors<float>& in;
  const AttentionGradients<float>& out;
  float scale;
  const float* p;
  const float* dy;
};

// Processes one head: adds to dkey and dvalue, writes the gradient of its queries.
void RunHead(const Job& job, const HeadOffsets& head, std::span<const Block> blocks,
             BackwardProducts* products, const Pieces& at) {
  const AttentionSize& e = job.e;
  GatherRows(e.queries, e.value_size, 1, job.dy + head.output, e.output_stride(), at.dy);
  GatherRows(e.queries, e.size, job.scale, job.in.query + head.query, e.query_stride(), at.query);
  for (size_t b = 0; b < blocks.size(); ++b) {
    const Block& block = blocks[b];
    const float* p = job.p + head.saved + block.first * e.keys;
    const float* dy = at.dy + block.first * e.value_size;
    if (job.out.value != nullptr) products->value[b].Run(p, dy, at.dvalue, at.product);
    if (job.out.query == nullptr && job.out.key == nullptr) continue;
    products->probability[b].Run(dy, at.value, at.dp, at.product);
    AttentionScoreGradients(block.queries, block.keys, p, at.dp);
    if (job.out.key != nullptr) {
      products->key[b].Run(at.dp, at.query + block.first * e.size, at.dkey, at.product);
    }
    if (job.out.query != nullptr) {
      products->query[b].Run(at.dp, at.key, at.dquery + block.first * e.size, at.product);
    }
  }
  if (job.out.query == nullptr) return;
  ScatterRows(e.queries, e.size, job.scale, at.dquery, job.out.query + head.query,
              e.query_stride());
}

// Processes the heads that share keys and values.
void RunGroup(const Job& job, int64_t item, int64_t kv_head, std::span<const Block> blocks,
              BackwardProducts* products, const Pieces& at) {
  const AttentionSize& e = job.e;
  const HeadOffsets first(e, item, kv_head * e.group());
  GatherRows(e.keys, e.size, 1, job.in.key + first.key, e.key_stride(), at.key);
  GatherRows(e.keys, e.value_size, 1, job.in.value + first.value, e.value_stride(), at.value);
  std::fill_n(at.dkey, e.keys * e.size, 0.0F);
  std::fill_n(at.dvalue, e.keys * e.value_size, 0.0F);
  for (int64_t g = 0; g < e.group(); ++g) {
    RunHead(job, HeadOffsets(e, item, kv_head * e.group() + g), blocks, products, at);
  }
  if (job.out.key != nullptr) {
    ScatterRows(e.keys, e.size, 1, at.dkey, job.out.key + first.key, e.key_stride());
  }
  if (job.out.value != nullptr) {
    ScatterRows(e.keys, e.value_size, 1, at.dvalue, job.out.value + first.value, e.value_stride());
  }
}

}  // namespace

void Backward(const Layer& layer, const BackwardArgs& args) {
  auto& state = *static_cast<State*>(args.implementation_state);
  const AttentionSize e = AttentionSizeOf(layer, args.inputs);
  const AttentionTensors<float> in = AttentionTensorsOf<float>(e, args.inputs);
  const AttentionGradients<float> out = AttentionGradientsOf<float>(e, args.input_grads);
  const Job job{e,
                in,
                out,
                static_cast<float>(AttentionScale(layer, e)),
                args.saved[0].data<float>(),
                args.output_grads[0].data<float>()};
  const size_t product_bytes = state.backward[0].Scratch();
  const size_t bytes = Pieces::Bytes(e, product_bytes);
  const int64_t jobs = e.items * e.kv_heads;
  ParallelFor(args.context.threads(), jobs, 1, [&](int64_t begin, int64_t end, int w) {
    const auto number = static_cast<size_t>(w);
    const Pieces at(e, product_bytes, ScratchCutter(args.scratch.subspan(number * bytes, bytes)));
    for (int64_t i = begin; i < end; ++i) {
      RunGroup(job, i / e.kv_heads, i % e.kv_heads, state.blocks, &state.backward[number], at);
    }
  });
}

size_t BackwardScratch(const OpDesc& query) {
  const AttentionSize e = AttentionSizeOf(query.layer, query.context.inputs);
  const BackwardProducts products(e, BlocksOf(e, IsCausal(query.layer)));
  const int workers = ParallelWorkers(query.threads, e.items * e.kv_heads, 1);
  return Pieces::Bytes(e, products.Scratch()) * static_cast<size_t>(workers);
}

}  // namespace crema::attention
