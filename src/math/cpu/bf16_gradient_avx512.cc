// The products of the weight gradient by AVX512-BF16: a pair of places of one channel, broadcast to
// all elements of a vector, times that of 16 outputs.
#include <cstring>

#include "math/cpu/bf16_gradient_driver.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace crema::bf16_gradient {

#if defined(__x86_64__)

namespace {

#define CREMA_AVX512_BF16 [[gnu::target("avx512f,avx512bw,avx512bf16")]]

// Channels processed at a time: enough that no sum waits for the previous one, few enough that all
// stay in registers.
template <int kColumns>
constexpr int kRowsAtATime = kLanes / kColumns;

template <int kColumns>
CREMA_AVX512_BF16 void MultiplyRows(const ProductOperands& o, const BFloat16* inputs, float* sums) {
  constexpr int kRows = kRowsAtATime<kColumns>;
  __m512 sum[kRows][kColumns];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int c = 0; c < kColumns; ++c) sum[r][c] = _mm512_loadu_ps(sums + c * kTile + r * kLanes);
  }
  const BFloat16* gradients = o.gradients;
  for (int64_t i = 0; i < o.places; i += 2, inputs += 2, gradients += 2 * kLanes) {
    __m512i column[kColumns];
#pragma GCC unroll 2
    for (int c = 0; c < kColumns; ++c) {
      column[c] = _mm512_loadu_si512(gradients + c * o.gradient_block);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      int32_t pair;
      std::memcpy(&pair, inputs + r * o.input_row, sizeof(pair));
      const __m512i row = _mm512_set1_epi32(pair);
#pragma GCC unroll 2
      for (int c = 0; c < kColumns; ++c) {
        sum[r][c] = _mm512_dpbf16_ps(sum[r][c], __builtin_bit_cast(__m512bh, row),
                                     __builtin_bit_cast(__m512bh, column[c]));
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int c = 0; c < kColumns; ++c) _mm512_storeu_ps(sums + c * kTile + r * kLanes, sum[r][c]);
  }
}

struct VectorProducts {
  void Multiply(int rows, int columns, const ProductOperands& o) const {
    columns == 1 ? Run<1>(rows, o) : Run<2>(rows, o);
  }

 private:
  template <int kColumns>
  static void Run(int rows, const ProductOperands& o) {
    for (int r = 0; r < rows; ++r) {
      for (int64_t channel = 0; channel < kLanes; channel += kRowsAtATime<kColumns>) {
        MultiplyRows<kColumns>(o, o.inputs + r * o.input_block + channel * o.input_row,
                               o.sums + r * o.sum_row + channel * kLanes);
      }
    }
  }
};

}  // namespace

void VectorGradient(const BlockedConvShape& shape, int threads, const BFloat16* x,
                    const BFloat16* dy, float* dweight, std::span<std::byte> scratch) {
  RunGradient<VectorProducts>(shape, threads, x, dy, dweight, scratch);
}

#else

void VectorGradient(const BlockedConvShape&, int, const BFloat16*, const BFloat16*, float*,
                    std::span<std::byte>) {}

#endif

}  // namespace crema::bf16_gradient
