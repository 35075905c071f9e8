#include <algorithm>

#include "core/parallel_for.h"
#include "layers/attention/attention_onednn.h"
#include "math/vectorize.h"

namespace crema::attention {
namespace {

size_t MostScratch(const std::vector<DenseProduct>& products) {
  size_t most = 0;
  for (const DenseProduct& product : products) most = std::max(most, product.Scratch());
  return most;
}

}  // namespace

std::vector<Block> BlocksOf(const AttentionSize& e, bool causal) {
  constexpr int64_t kLeast = 64, kMost = 8;
  const int64_t count = causal ? std::clamp<int64_t>(e.queries / kLeast, 1, kMost) : 1;
  std::vector<Block> blocks;
  for (int64_t b = 0; b < count; ++b) {
    const int64_t first = e.queries * b / count, end = e.queries * (b + 1) / count;
    blocks.push_back({first, end - first, causal ? std::min(e.keys, end) : e.keys});
  }
  return blocks;
}

ForwardProducts::ForwardProducts(const AttentionSize& e, std::span<const Block> blocks) {
  for (const Block& b : blocks) {
    scores.emplace_back(
        DenseProductConfig{.m = b.queries, .n = b.keys, .k = e.size, .transpose_b = true});
    mixtures.emplace_back(DenseProductConfig{.m = b.queries, .n = e.value_size, .k = b.keys});
  }
}

size_t ForwardProducts::Scratch() const {
  return std::max(MostScratch(scores), MostScratch(mixtures));
}

BackwardProducts::BackwardProducts(const AttentionSize& e, std::span<const Block> blocks) {
  for (const Block& b : blocks) {
    probability.emplace_back(
        DenseProductConfig{.m = b.queries, .n = b.keys, .k = e.value_size, .transpose_b = true});
    query.emplace_back(DenseProductConfig{.m = b.queries, .n = e.size, .k = b.keys});
    // Accumulate over blocks and over the heads that share keys.
    key.emplace_back(DenseProductConfig{
        .m = b.keys, .n = e.size, .k = b.queries, .transpose_a = true, .add = true});
    value.emplace_back(DenseProductConfig{
        .m = b.keys, .n = e.value_size, .k = b.queries, .transpose_a = true, .add = true});
  }
}

size_t BackwardProducts::Scratch() const {
  return std::max(
      {MostScratch(probability), MostScratch(query), MostScratch(key), MostScratch(value)});
}

State::State(const OpDesc& query) {
  const AttentionSize e = AttentionSizeOf(query.layer, query.context.inputs);
  blocks = BlocksOf(e, IsCausal(query.layer));
  const int forward_workers = ParallelWorkers(query.threads, e.items * e.heads, 1);
  for (int i = 0; i < forward_workers; ++i) forward.emplace_back(e, blocks);
  if (!query.backward) return;
  const int backward_workers = ParallelWorkers(query.threads, e.items * e.kv_heads, 1);
  for (int i = 0; i < backward_workers; ++i) backward.emplace_back(e, blocks);
}

CREMA_MULTIVERSION void GatherRows(int64_t rows, int64_t width, float factor, const float* from,
                                   int64_t step, float* to) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t d = 0; d < width; ++d) to[r * width + d] = factor * from[r * step + d];
  }
}

CREMA_MULTIVERSION void ScatterRows(int64_t rows, int64_t width, float factor, const float* from,
                                    float* to, int64_t step) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t d = 0; d < width; ++d) to[r * step + d] = factor * from[r * width + d];
  }
}

}  // namespace crema::attention
