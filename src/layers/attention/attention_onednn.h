// Internal: what the forward and the backward pass of implementation "onednn" of Attention share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "crema.pb.h"
#include "graph/implementation.h"
#include "layers/attention/attention_geometry.h"
#include "math/dense_product.h"

namespace crema::attention {

// Queries that are multiplied together, and how many keys they see at most. The probabilities of a
// block are queries x keys without gaps; where they are saved they begin at first * all keys.
struct Block {
  int64_t first = 0;
  int64_t queries = 0;
  int64_t keys = 0;
};
std::vector<Block> BlocksOf(const AttentionSize& extent, bool causal);

inline bool IsCausal(const Layer& layer) { return layer.param().attention_param().causal(); }

// The products of one thread, by block.
struct ForwardProducts {
  ForwardProducts(const AttentionSize& extent, std::span<const Block> blocks);
  size_t Scratch() const;
  std::vector<DenseProduct> scores, mixtures;
};
struct BackwardProducts {
  BackwardProducts(const AttentionSize& extent, std::span<const Block> blocks);
  size_t Scratch() const;
  std::vector<DenseProduct> probability, query, key, value;  // gradients of what
};

struct State final : ImplementationState {
  explicit State(const OpDesc& query);
  std::vector<Block> blocks;
  std::vector<ForwardProducts> forward;    // by thread
  std::vector<BackwardProducts> backward;  // the same; none without a backward pass
};

// to (rows x width, without gaps) = factor * from, whose rows are `step` apart.
void GatherRows(int64_t rows, int64_t width, float factor, const float* from, int64_t step,
                float* to);
// The way back.
void ScatterRows(int64_t rows, int64_t width, float factor, const float* from, float* to,
                 int64_t step);

void Backward(const Layer& layer, const BackwardArgs& args);
size_t BackwardScratch(const OpDesc& query);

}  // namespace crema::attention
