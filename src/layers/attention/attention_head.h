// The mathematics of one head of attention; T is float or double.
#pragma once

#include <cstdint>

#include "layers/attention/attention_geometry.h"

namespace crema {

// The mask as one head of one item sees it.
template <typename T>
struct HeadMask {
  const T* data = nullptr;  // null: there is none
  int64_t query_step = 0;
  int64_t key_step = 0;
};

// Where queries, keys and values begin.
template <typename T>
struct AttentionTensors {
  const T* query = nullptr;
  const T* key = nullptr;
  const T* value = nullptr;
};

// Null where a gradient is not wanted.
template <typename T>
struct AttentionGradients {
  T* query = nullptr;
  T* key = nullptr;
  T* value = nullptr;
};

// Offsets of one head of one item.
struct HeadOffsets {
  HeadOffsets(const AttentionExtent& e, int64_t item, int64_t head)
      : query(item * e.queries * e.query_stride() + head * e.size),
        key(item * e.keys * e.key_stride() + head / e.group() * e.size),
        value(item * e.keys * e.value_stride() + head / e.group() * e.value_size),
        output(item * e.queries * e.output_stride() + head * e.value_size),
        saved((item * e.heads + head) * e.products()) {}
  int64_t query, key, value, output, saved;
};

// p (Tq x Tk) = softmax(scale Q K^T + mask) row by row; y = p V. A row that sees no key is 0.
template <typename T>
void AttentionForward(const AttentionExtent& e, const AttentionTensors<T>& in,
                      const HeadOffsets& at, T scale, bool causal, const HeadMask<T>& mask, T* p,
                      T* y);

// `dp` is scratch of Tq x Tk. The gradients of key and value are sums over the heads of a group:
// `beta` is 0 for the first of them.
template <typename T>
void AttentionBackward(const AttentionExtent& e, const AttentionTensors<T>& in,
                       const HeadOffsets& at, T scale, T beta, const T* p, const T* dy,
                       const AttentionGradients<T>& out, T* dp);

}  // namespace crema
