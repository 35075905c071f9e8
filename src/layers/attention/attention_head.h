// Computation of one attention head; T is float or double.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "layers/attention/attention_geometry.h"

namespace crema {

// Mask of one head of one item.
template <typename T>
struct HeadMask {
  const T* data = nullptr;  // null means no mask
  int64_t query_step = 0;
  int64_t key_step = 0;
};

// Masks of all heads, if the layer has a mask among its inputs.
template <typename T>
class AttentionMasks {
 public:
  AttentionMasks(const Layer& layer, const AttentionSize& e,
                 std::span<const ConstTensorView> inputs) {
    const int mask = AttentionMask(inputs.size());
    if (mask < 0) return;
    const ConstTensorView& view = inputs[static_cast<size_t>(mask)];
    data_ = view.data<T>();
    steps_ = MaskStrides(layer, e, view.shape());
  }
  HeadMask<T> Of(int64_t item, int64_t head) const {
    if (data_ == nullptr) return {};
    return {data_ + item * steps_[0] + head * steps_[1], steps_[2], steps_[3]};
  }

 private:
  const T* data_ = nullptr;
  std::array<int64_t, 4> steps_{};
};

// First elements of queries, keys and values.
template <typename T>
struct AttentionTensors {
  const T* query = nullptr;
  const T* key = nullptr;
  const T* value = nullptr;
};

template <typename T>
AttentionTensors<T> AttentionTensorsOf(const AttentionSize& e,
                                       std::span<const ConstTensorView> inputs) {
  return {inputs[0].data<T>(), inputs[e.packed ? 0 : 1].data<T>() + e.key_begin(),
          inputs[e.packed ? 0 : 2].data<T>() + e.value_begin()};
}

// A pointer is null if its gradient is not needed.
template <typename T>
struct AttentionGradients {
  T* query = nullptr;
  T* key = nullptr;
  T* value = nullptr;
};

template <typename T>
AttentionGradients<T> AttentionGradientsOf(const AttentionSize& e,
                                           std::span<const TensorView> grads) {
  const auto begin = [&](size_t i, int64_t offset) {
    const TensorView& view = grads[e.packed ? 0 : i];
    return view.empty() ? nullptr : view.data<T>() + offset;
  };
  return {begin(0, 0), begin(1, e.key_begin()), begin(2, e.value_begin())};
}

// Offsets of one head of one item, in elements.
struct HeadOffsets {
  HeadOffsets(const AttentionSize& e, int64_t item, int64_t head)
      : query(item * e.queries * e.query_stride() + head * e.size),
        key(item * e.keys * e.key_stride() + head / e.group() * e.size),
        value(item * e.keys * e.value_stride() + head / e.group() * e.value_size),
        output(item * e.queries * e.output_stride() + head * e.value_size),
        saved((item * e.heads + head) * e.products()) {}
  int64_t query, key, value, output, saved;
};

// Converts products of the queries from `first` on with keys 0..keys-1 to probabilities, in place.
template <typename T>
void AttentionSoftmax(int64_t first, int64_t queries, int64_t keys, bool causal,
                      const HeadMask<T>& mask, T* p);

// p (Tq x Tk) = softmax(scale Q K^T + mask) for each row; y = p V. A row that attends to no key is
// 0.
template <typename T>
void AttentionForward(const AttentionSize& e, const AttentionTensors<T>& in, const HeadOffsets& at,
                      T scale, bool causal, const HeadMask<T>& mask, T* p, T* y);

// `dp` is scratch of Tq x Tk. The gradients of key and value are sums over the heads of a group:
// `beta` is 0 for the first head, which overwrites them, and 1 for the others.
template <typename T>
void AttentionBackward(const AttentionSize& e, const AttentionTensors<T>& in, const HeadOffsets& at,
                       T scale, T beta, const T* p, const T* dy, const AttentionGradients<T>& out,
                       T* dp);

}  // namespace crema
