#include "layers/attention/attention_head.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "math/gemm.h"
#include "math/softmax.h"

namespace crema {
namespace {

// Converts one row of products to probabilities, in place; only the first `visible` keys are
// attended.
template <typename T>
void MaskedSoftmax(const T* mask, int64_t mask_step, int64_t visible, int64_t keys, T* row) {
  if (mask != nullptr) {
    for (int64_t k = 0; k < visible; ++k) row[k] += mask[k * mask_step];
  }
  std::fill(row + visible, row + keys, T(0));
  const T lowest = -std::numeric_limits<T>::infinity();
  if (std::all_of(row, row + visible, [&](T value) { return value == lowest; })) {
    std::fill(row, row + visible, T(0));  // attends to no key
    return;
  }
  SoftmaxForward<T>(1, {.outer = 1, .classes = visible, .inner = 1}, row, row);
}

}  // namespace

template <typename T>
void AttentionSoftmax(int64_t first, int64_t queries, int64_t keys, bool causal,
                      const HeadMask<T>& mask, T* p) {
  for (int64_t q = 0; q < queries; ++q) {
    const int64_t at = first + q;
    const T* row_mask = mask.data == nullptr ? nullptr : mask.data + at * mask.query_step;
    MaskedSoftmax<T>(row_mask, mask.key_step, causal ? std::min(keys, at + 1) : keys, keys,
                     p + q * keys);
  }
}

template <typename T>
void AttentionForward(const AttentionSize& e, const AttentionTensors<T>& in, const HeadOffsets& at,
                      T scale, bool causal, const HeadMask<T>& mask, T* p, T* y) {
  Gemm<T>(1, false, true, e.queries, e.keys, e.size, scale, in.query + at.query, e.query_stride(),
          in.key + at.key, e.key_stride(), T(0), p, e.keys);
  AttentionSoftmax<T>(0, e.queries, e.keys, causal, mask, p);
  Gemm<T>(1, false, false, e.queries, e.value_size, e.keys, T(1), p, e.keys, in.value + at.value,
          e.value_stride(), T(0), y + at.output, e.output_stride());
}

template <typename T>
void AttentionBackward(const AttentionSize& e, const AttentionTensors<T>& in, const HeadOffsets& at,
                       T scale, T beta, const T* p, const T* dy, const AttentionGradients<T>& out,
                       T* dp) {
  if (out.value != nullptr) {
    Gemm<T>(1, true, false, e.keys, e.value_size, e.queries, T(1), p, e.keys, dy + at.output,
            e.output_stride(), beta, out.value + at.value, e.value_stride());
  }
  if (out.query == nullptr && out.key == nullptr) return;
  Gemm<T>(1, false, true, e.queries, e.keys, e.value_size, T(1), dy + at.output, e.output_stride(),
          in.value + at.value, e.value_stride(), T(0), dp, e.keys);
  for (int64_t q = 0; q < e.queries; ++q) {
    const T* probability = p + q * e.keys;
    T* row = dp + q * e.keys;
    double sum = 0;
    for (int64_t k = 0; k < e.keys; ++k) sum += double{row[k]} * double{probability[k]};
    for (int64_t k = 0; k < e.keys; ++k) {
      // A masked key gets 0, even if its dp is infinite or NaN.
      row[k] = probability[k] == T(0) ? T(0) : probability[k] * (row[k] - static_cast<T>(sum));
    }
  }
  if (out.query != nullptr) {
    Gemm<T>(1, false, false, e.queries, e.size, e.keys, scale, dp, e.keys, in.key + at.key,
            e.key_stride(), T(0), out.query + at.query, e.query_stride());
  }
  if (out.key != nullptr) {
    Gemm<T>(1, true, false, e.keys, e.size, e.queries, scale, dp, e.keys, in.query + at.query,
            e.query_stride(), beta, out.key + at.key, e.key_stride());
  }
}

template void AttentionSoftmax(int64_t, int64_t, int64_t, bool, const HeadMask<float>&, float*);
template void AttentionForward(const AttentionSize&, const AttentionTensors<float>&,
                               const HeadOffsets&, float, bool, const HeadMask<float>&, float*,
                               float*);
template void AttentionBackward(const AttentionSize&, const AttentionTensors<float>&,
                                const HeadOffsets&, float, float, const float*, const float*,
                                const AttentionGradients<float>&, float*);
template void AttentionSoftmax(int64_t, int64_t, int64_t, bool, const HeadMask<double>&, double*);
template void AttentionForward(const AttentionSize&, const AttentionTensors<double>&,
                               const HeadOffsets&, double, bool, const HeadMask<double>&, double*,
                               double*);
template void AttentionBackward(const AttentionSize&, const AttentionTensors<double>&,
                                const HeadOffsets&, double, double, const double*, const double*,
                                const AttentionGradients<double>&, double*);

}  // namespace crema
