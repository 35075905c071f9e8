// Memory layout of the heads of queries, keys, values and mask.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/shape.h"
#include "graph/layer.h"

namespace crema {

struct AttentionSize {
  int64_t items = 0;       // N
  int64_t queries = 0;     // Tq
  int64_t keys = 0;        // Tk
  int64_t heads = 1;       // of queries
  int64_t kv_heads = 1;    // of keys and values
  int64_t size = 0;        // of a head of queries and keys
  int64_t value_size = 0;  // of a head of values
  bool packed = false;     // one bottom with queries, keys and values in each row, in this order

  int64_t group() const { return heads / kv_heads; }  // heads of queries per head of keys
  int64_t products() const { return queries * keys; }
  // Returns the distance between rows of queries, keys or values, and the offset of keys and values
  // in a row.
  int64_t query_stride() const { return packed ? packed_width() : heads * size; }
  int64_t key_stride() const { return packed ? packed_width() : kv_heads * size; }
  int64_t value_stride() const { return packed ? packed_width() : kv_heads * value_size; }
  int64_t packed_width() const { return (heads + 2 * kv_heads) * size; }
  int64_t key_begin() const { return packed ? heads * size : 0; }
  int64_t value_begin() const { return packed ? (heads + kv_heads) * size : 0; }
  int64_t output_stride() const { return heads * value_size; }
};

// Returns the index of the mask among `inputs` bottoms; -1 means none.
inline int AttentionMask(size_t inputs) { return inputs == 2 ? 1 : inputs == 4 ? 3 : -1; }

// Checks the shapes of queries, keys and values (or the packed input) against attention_param, and
// returns the sizes. Ignores a mask. Throws kInvalidArgument.
AttentionSize AttentionSizeOf(const Layer& layer, std::span<const BlobSpec> inputs);
AttentionSize AttentionSizeOf(const Layer& layer, std::span<const ConstTensorView> inputs);

// Returns the factor on products of queries and keys.
double AttentionScale(const Layer& layer, const AttentionSize& sizes);

// Returns the strides of the mask along item, head, query and key; 0 for a broadcast axis. Throws
// unless the mask has 2 to 4 axes that broadcast to N x heads x Tq x Tk; 3 axes are N x Tq x Tk.
std::array<int64_t, 4> MaskStrides(const Layer& layer, const AttentionSize& sizes,
                                   const Shape& mask);

}  // namespace crema
