// Row "onednn" of Attention, for passes without backward. oneDNN's products of matrices without
// gaps take 0.7 to 0.85 of the time of ours, so that the queries, keys and values
// of a head are copied together first. A causal layer works on blocks of queries, each with the
// keys that its last one sees.
#include <algorithm>
#include <memory>
#include <vector>

#include "core/memory_format.h"
#include "core/parallel_for.h"
#include "layers/attention/attention_geometry.h"
#include "layers/attention/attention_head.h"
#include "layers/attention/attention_powers.h"
#include "layers/attention/attention_row.h"
#include "math/dense_product.h"
#include "math/scratch.h"
#include "math/vectorize.h"

namespace crema {
namespace {

// Queries that are multiplied together.
struct Block {
  int64_t first = 0;
  int64_t queries = 0;
  int64_t keys = 0;

  DenseProductConfig Scores(const AttentionExtent& e) const {
    return {.m = queries, .n = keys, .k = e.size, .transpose_b = true};
  }
  DenseProductConfig Mixture(const AttentionExtent& e) const {
    return {.m = queries, .n = e.value_size, .k = keys};
  }
};

bool IsCausal(const Layer& layer) { return layer.param().attention_param().causal(); }

std::vector<Block> BlocksOf(const AttentionExtent& e, bool causal) {
  constexpr int64_t kLeast = 64, kMost = 8;
  const int64_t count = causal ? std::clamp<int64_t>(e.queries / kLeast, 1, kMost) : 1;
  std::vector<Block> blocks;
  for (int64_t b = 0; b < count; ++b) {
    const int64_t first = e.queries * b / count, end = e.queries * (b + 1) / count;
    blocks.push_back({first, end - first, causal ? std::min(e.keys, end) : e.keys});
  }
  return blocks;
}

// What one thread uses: products of each block.
struct Worker {
  Worker(const AttentionExtent& e, std::span<const Block> blocks) {
    for (const Block& block : blocks) {
      scores.emplace_back(block.Scores(e));
      mixtures.emplace_back(block.Mixture(e));
    }
  }
  size_t Scratch() const {
    size_t most = 0;
    for (const DenseProduct& product : scores) most = std::max(most, product.Scratch());
    for (const DenseProduct& product : mixtures) most = std::max(most, product.Scratch());
    return most;
  }
  std::vector<DenseProduct> scores, mixtures;
};

struct State final : KernelState {
  explicit State(const KernelQuery& query) {
    const AttentionExtent e = AttentionExtentOf(query.layer, query.context.inputs);
    blocks = BlocksOf(e, IsCausal(query.layer));
    const int count = ParallelWorkers(query.threads, e.items * e.heads, 1);
    for (int i = 0; i < count; ++i) workers.emplace_back(e, blocks);
  }
  std::vector<Block> blocks;
  std::vector<Worker> workers;
};

// Memory of one worker.
struct Pieces {
  Pieces(const AttentionExtent& e, size_t product_bytes, ScratchCutter cutter)
      : query(cutter.Take<float>(e.queries * e.size)),
        key(cutter.Take<float>(e.keys * e.size)),
        value(cutter.Take<float>(e.keys * e.value_size)),
        p(cutter.Take<float>(e.products())),
        y(cutter.Take<float>(e.queries * e.value_size)),
        factors(cutter.Take<float>(e.queries)),
        product(cutter.Take<std::byte>(static_cast<int64_t>(product_bytes))) {}
  static size_t Bytes(const AttentionExtent& e, size_t product_bytes) {
    return ScratchBytes<float>(e.queries * e.size) + ScratchBytes<float>(e.keys * e.size) +
           ScratchBytes<float>(e.keys * e.value_size) + ScratchBytes<float>(e.products()) +
           ScratchBytes<float>(e.queries * e.value_size) + ScratchBytes<float>(e.queries) +
           ScratchBytes<std::byte>(static_cast<int64_t>(product_bytes)) + kScratchSlack;
  }
  float *query, *key, *value, *p, *y, *factors;
  std::byte* product;
};

void CopyRows(int64_t rows, int64_t width, const float* from, int64_t step, float* to) {
  for (int64_t r = 0; r < rows; ++r) std::copy_n(from + r * step, width, to + r * width);
}

// Scaled, so that the products are.
CREMA_MULTIVERSION void LoadQueries(const AttentionExtent& e, float scale, const float* from,
                                    float* to) {
  for (int64_t q = 0; q < e.queries; ++q) {
    const float* row = from + q * e.query_stride();
    for (int64_t d = 0; d < e.size; ++d) to[q * e.size + d] = scale * row[d];
  }
}

CREMA_MULTIVERSION void StoreOutput(const AttentionExtent& e, const float* from,
                                    const float* factors, float* to) {
  for (int64_t q = 0; q < e.queries; ++q) {
    const float* row = from + q * e.value_size;
    for (int64_t d = 0; d < e.value_size; ++d) to[q * e.output_stride() + d] = factors[q] * row[d];
  }
}

void RunHead(const AttentionExtent& e, std::span<const Block> blocks, bool causal,
             const HeadMask<float>& mask, Worker* worker, const Pieces& at) {
  for (size_t b = 0; b < blocks.size(); ++b) {
    const Block& block = blocks[b];
    worker->scores[b].Run(at.query + block.first * e.size, at.key, at.p, at.product);
    AttentionPowers(block.first, block.queries, block.keys, causal, mask, at.p,
                    at.factors + block.first);
    worker->mixtures[b].Run(at.p, at.value, at.y + block.first * e.value_size, at.product);
  }
}

void Forward(const Layer& layer, const ForwardArgs& args) {
  auto& state = *static_cast<State*>(args.kernel_state);
  const AttentionExtent e = AttentionExtentOf(layer, args.inputs);
  const AttentionTensors<float> in = AttentionTensorsOf<float>(e, args.inputs);
  const AttentionMasks<float> masks(layer, e, args.inputs);
  const auto scale = static_cast<float>(AttentionScale(layer, e));
  const size_t product_bytes = state.workers[0].Scratch();
  const size_t bytes = Pieces::Bytes(e, product_bytes);
  const int64_t jobs = e.items * e.heads;
  ParallelFor(args.context.threads(), jobs, 1, [&](int64_t begin, int64_t end, int w) {
    const auto number = static_cast<size_t>(w);
    const Pieces at(e, product_bytes, ScratchCutter(args.scratch.subspan(number * bytes, bytes)));
    for (int64_t job = begin; job < end; ++job) {
      const int64_t item = job / e.heads, head = job % e.heads;
      const HeadOffsets from(e, item, head);
      LoadQueries(e, scale, in.query + from.query, at.query);
      if (job == begin || head % e.group() == 0) {
        CopyRows(e.keys, e.size, in.key + from.key, e.key_stride(), at.key);
        CopyRows(e.keys, e.value_size, in.value + from.value, e.value_stride(), at.value);
      }
      RunHead(e, state.blocks, IsCausal(layer), masks.Of(item, head), &state.workers[number], at);
      StoreOutput(e, at.y, at.factors, args.outputs[0].data<float>() + from.output);
    }
  });
}

Support Supports(const KernelQuery& query) {
  if (ChannelBlock() != 16) return Support::No("needs a processor with AVX-512");
  if (query.deterministic) return Support::No("its bits depend on the number of threads");
  if (query.backward) return Support::No("is for passes without backward");
  if (query.context.dtype != DType::kF32) return Support::No("is for f32");
  const AttentionExtent e = AttentionExtentOf(query.layer, query.context.inputs);
  if (e.items == 0) return Support::No("there are no items");
  constexpr int64_t kLeast = 32;
  if (std::min(e.queries, e.keys) < kLeast) {
    return Support::No("copies take longer than what it gains on matrices this small");
  }
  for (const Block& block : BlocksOf(e, IsCausal(query.layer))) {
    if (!DenseProduct::IsFast(block.Scores(e)) || !DenseProduct::IsFast(block.Mixture(e))) {
      return Support::No("oneDNN has nothing fast for these products");
    }
  }
  return {};
}

size_t Scratch(const KernelQuery& query) {
  const AttentionExtent e = AttentionExtentOf(query.layer, query.context.inputs);
  const Worker worker(e, BlocksOf(e, IsCausal(query.layer)));
  const int workers = ParallelWorkers(query.threads, e.items * e.heads, 1);
  return Pieces::Bytes(e, worker.Scratch()) * static_cast<size_t>(workers);
}

}  // namespace

Kernel OneDnnAttentionKernel() {
  Kernel row;
  row.name = "onednn";
  row.supports = Supports;
  row.forward = Forward;
  row.forward_scratch = Scratch;
  row.make_state = [](const KernelQuery& query) -> std::unique_ptr<KernelState> {
    return std::make_unique<State>(query);
  };
  return row;
}

}  // namespace crema
