#include "math/cpu/simd_gemm.h"

#include <algorithm>
#include <cstring>

#include "core/dtype.h"
#include "core/shape.h"
#include "core/tensor.h"

namespace crema {
namespace {

#if defined(__GNUC__)

// Transposes four rows of four elements.
void Transpose4x4(const float* a, const float* b, const float* c, const float* d, float* to,
                  int64_t to_stride) {
  typedef float Vector __attribute__((vector_size(16)));  // NOLINT: `using` drops the attribute
  Vector rows[4];
  std::memcpy(&rows[0], a, sizeof(Vector));
  std::memcpy(&rows[1], b, sizeof(Vector));
  std::memcpy(&rows[2], c, sizeof(Vector));
  std::memcpy(&rows[3], d, sizeof(Vector));
  const Vector low01 = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5);
  const Vector high01 = __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7);
  const Vector low23 = __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5);
  const Vector high23 = __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7);
  const Vector columns[4] = {__builtin_shufflevector(low01, low23, 0, 1, 4, 5),
                             __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
                             __builtin_shufflevector(high01, high23, 0, 1, 4, 5),
                             __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
  for (int i = 0; i < 4; ++i) std::memcpy(to + i * to_stride, &columns[i], sizeof(Vector));
}

#else

void Transpose4x4(const float* a, const float* b, const float* c, const float* d, float* to,
                  int64_t to_stride) {
  for (int i = 0; i < 4; ++i) {
    float* row = to + i * to_stride;
    row[0] = a[i];
    row[1] = b[i];
    row[2] = c[i];
    row[3] = d[i];
  }
}

#endif

// to[k * to_stride + r] = from[r * stride + k]. Floats are written in fours: up to three elements
// past `rows` as well, in ascending k, so that those of the next k overwrite them.
template <typename T>
void TransposeRows(int64_t rows, int64_t depth, const T* from, int64_t stride, T* to,
                   int64_t to_stride) {
  int64_t k = 0;
  if constexpr (sizeof(T) == sizeof(float)) {
    const int64_t last = (rows - 1) * stride;
    for (; k + 4 <= depth; k += 4) {
      for (int64_t r = (rows - 1) / 4 * 4; r >= 0; r -= 4) {
        const float* row = from + k;
        Transpose4x4(row + r * stride, row + std::min((r + 1) * stride, last),
                     row + std::min((r + 2) * stride, last), row + std::min((r + 3) * stride, last),
                     to + k * to_stride + r, to_stride);
      }
    }
  }
  for (; k < depth; ++k) {
    for (int64_t r = 0; r < rows; ++r) to[k * to_stride + r] = from[r * stride + k];
  }
}

constexpr int64_t kDepthBytes = 1024;  // of a block; a panel of B stays in the first-level cache
constexpr int64_t kRowBlock = 192;
constexpr int64_t kColumnBlock = 384;  // a block of B stays in the second-level cache

// Packed blocks of A and B. They are too large for thread stacks, whose size the program chooses.
template <typename T>
struct PackedBlocks {
  alignas(64) T a[kRowBlock * kDepthBytes / sizeof(T) + kPackSlack];
  alignas(64) T b[kColumnBlock * kDepthBytes / sizeof(T)];
};

// The buffers of the calling thread: no thread waits for another, and only the first product
// allocates.
template <typename T>
PackedBlocks<T>& BlocksOfThread() {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(PackedBlocks<double>));
  static_assert(sizeof(PackedBlocks<float>) <= sizeof(PackedBlocks<double>));
  thread_local Tensor memory;
  if (memory.view().raw() == nullptr) memory = Tensor(Shape{kBytes}, DType::kU8);
  return *static_cast<PackedBlocks<T>*>(memory.view().raw());
}

// Computes one block of C: tiles of packed rows times packed panels.
template <typename T>
void MultiplyBlock(const BasicSimdGemm<T>& simd, int64_t rows, int64_t columns,
                   const BasicGemmTile<T>& block) {
  const int64_t tiles = RowTiles(simd, rows);
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t first = RowTile(rows, tiles, t);
    BasicGemmTile<T> tile = block;
    tile.a += first * block.depth;
    for (int64_t n = 0; n < columns; n += simd.columns) {
      tile.b = block.b + n * block.depth;
      tile.c = block.c + first * block.c_stride + n;
      tile.columns = static_cast<int>(std::min<int64_t>(simd.columns, columns - n));
      simd.run(static_cast<int>(RowTile(rows, tiles, t + 1) - first), tile);
    }
  }
}

template <typename T>
void Scale(int64_t m, int64_t n, T beta, T* c, int64_t ldc) {
  for (int64_t r = 0; r < m; ++r) {
    if (beta == 0) {
      std::fill(c + r * ldc, c + r * ldc + n, T(0));
    } else {
      for (int64_t i = 0; i < n; ++i) c[r * ldc + i] *= beta;
    }
  }
}

}  // namespace

template <typename T>
void PackRows(const BasicSimdGemm<T>& simd, bool transposed, int64_t rows, int64_t depth,
              std::type_identity_t<T> alpha, const T* a, int64_t stride, T* packed) {
  const int64_t tiles = RowTiles(simd, rows);
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t first = RowTile(rows, tiles, t);
    const int64_t count = RowTile(rows, tiles, t + 1) - first;
    T* tile = packed + first * depth;
    if (transposed) {
      for (int64_t k = 0; k < depth; ++k) {
        const T* row = a + k * stride + first;
        for (int64_t r = 0; r < count; ++r) tile[k * count + r] = row[r];
      }
    } else {
      TransposeRows(count, depth, a + first * stride, stride, tile, count);
    }
  }
  if (alpha == 1) return;
  for (int64_t i = 0; i < rows * depth; ++i) packed[i] *= alpha;
}

template <typename T>
void PackColumns(const BasicSimdGemm<T>& simd, bool transposed, int64_t depth, int64_t columns,
                 const T* b, int64_t stride, T* packed) {
  for (int64_t n = 0; n < columns; n += simd.columns, packed += depth * simd.columns) {
    const int64_t count = std::min<int64_t>(simd.columns, columns - n);
    if (transposed) {
      if (count < simd.columns) std::fill(packed, packed + depth * simd.columns, T(0));
      // Only whole groups of four may write past the end: the rest of the panel must stay 0.
      const int64_t whole = count / 4 * 4;
      if (whole > 0) TransposeRows(whole, depth, b + n * stride, stride, packed, simd.columns);
      for (int64_t i = whole; i < count; ++i) {
        const T* from = b + (n + i) * stride;
        for (int64_t k = 0; k < depth; ++k) packed[k * simd.columns + i] = from[k];
      }
      continue;
    }
    for (int64_t k = 0; k < depth; ++k) {
      T* row = packed + k * simd.columns;
      const T* from = b + k * stride + n;
      if (count == BasicSimdGemm<T>::kMaxColumns) {
        std::memcpy(row, from, BasicSimdGemm<T>::kMaxColumns * sizeof(T));  // the usual, fixed size
      } else {
        std::memcpy(row, from, static_cast<size_t>(count) * sizeof(T));
        std::fill(row + count, row + simd.columns, T(0));
      }
    }
  }
}

template <typename T>
void RunSimdGemm(const BasicSimdGemm<T>& simd, bool ta, bool tb, int64_t m, int64_t n, int64_t k,
                 T alpha, const T* a, int64_t lda, const T* b, int64_t ldb, T beta, T* c,
                 int64_t ldc) {
  if ((beta != 0 && beta != 1) || k == 0) Scale(m, n, beta, c, ldc);
  constexpr auto kDepthBlock = static_cast<int64_t>(kDepthBytes / sizeof(T));
  PackedBlocks<T>& packed = BlocksOfThread<T>();
  const int64_t parts = (k + kDepthBlock - 1) / kDepthBlock;
  for (int64_t n0 = 0; n0 < n; n0 += kColumnBlock) {
    const int64_t columns = std::min(kColumnBlock, n - n0);
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t k0 = k * part / parts;
      BasicGemmTile<T> block;
      block.depth = k * (part + 1) / parts - k0;
      PackColumns(simd, tb, block.depth, columns, b + (tb ? n0 * ldb + k0 : k0 * ldb + n0), ldb,
                  packed.b);
      for (int64_t m0 = 0; m0 < m; m0 += kRowBlock) {
        const int64_t rows = std::min(kRowBlock, m - m0);
        PackRows(simd, ta, rows, block.depth, alpha, a + (ta ? k0 * lda + m0 : m0 * lda + k0), lda,
                 packed.a);
        block.a = packed.a;
        block.b = packed.b;
        block.b_stride = simd.columns;
        block.c = c + m0 * ldc + n0;
        block.c_stride = ldc;
        block.accumulate = part > 0 || beta != 0;
        MultiplyBlock(simd, rows, columns, block);
      }
    }
  }
}

// Types cannot be in parentheses. NOLINTBEGIN(bugprone-macro-parentheses)
#define CREMA_INSTANTIATE(T)                                                                    \
  template void PackRows(const BasicSimdGemm<T>&, bool, int64_t, int64_t, T, const T*, int64_t, \
                         T*);                                                                   \
  template void PackColumns(const BasicSimdGemm<T>&, bool, int64_t, int64_t, const T*, int64_t, \
                            T*);                                                                \
  template void RunSimdGemm(const BasicSimdGemm<T>&, bool, bool, int64_t, int64_t, int64_t, T,  \
                            const T*, int64_t, const T*, int64_t, T, T*, int64_t);
// NOLINTEND(bugprone-macro-parentheses)
CREMA_INSTANTIATE(float)
CREMA_INSTANTIATE(double)
#undef CREMA_INSTANTIATE

}  // namespace crema
