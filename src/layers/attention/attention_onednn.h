// Internal: shared by the forward and backward pass of implementation "onednn" of Attention.
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

// Queries that are multiplied together, and the number of keys that they attend to at most. The
// probabilities of a block are a dense queries x keys matrix; if saved, they begin at first * (all
// keys).
struct Block {
  int64_t first = 0;
  int64_t queries = 0;
  int64_t keys = 0;
};
std::vector<Block> BlocksOf(const AttentionSize& sizes, bool causal);

inline bool IsCausal(const Layer& layer) { return layer.param().attention_param().causal(); }

// Products of one thread, indexed by block.
struct ForwardProducts {
  ForwardProducts(const AttentionSize& sizes, std::span<const Block> blocks);
  size_t Scratch() const;
  std::vector<DenseProduct> scores, mixtures;
};
struct BackwardProducts {
  BackwardProducts(const AttentionSize& sizes, std::span<const Block> blocks);
  size_t Scratch() const;
  std::vector<DenseProduct> probability, query, key, value;  // each gives the gradient of its name
};

struct State final : ImplementationState {
  explicit State(const OpDesc& query);
  std::vector<Block> blocks;
  std::vector<ForwardProducts> forward;    // indexed by thread
  std::vector<BackwardProducts> backward;  // indexed by thread; empty without a backward pass
};

// Copies rows to a dense `to` (rows x width) and multiplies by factor; rows of `from` are `step`
// apart.
void GatherRows(int64_t rows, int64_t width, float factor, const float* from, int64_t step,
                float* to);
// Copies dense rows to rows `step` apart.
void ScatterRows(int64_t rows, int64_t width, float factor, const float* from, float* to,
                 int64_t step);

void Backward(const Layer& layer, const BackwardArgs& args);
size_t BackwardScratch(const OpDesc& query);

}  // namespace crema::attention
