// The inner loops of single-precision matrix products, for processors with AVX-512 or AVX2.
// OpenBLAS only knows processors older than itself by name, and falls back to SSE code on newer
// ones.
#pragma once

#include <cstdint>

namespace crema {

// A tile of C, held in registers: C[r, n] = (start +) sum over k of a[k, r] * b[k, n].
struct GemmTile {
  int64_t depth = 0;         // k
  const float* a = nullptr;  // packed: depth rows of `rows` elements
  const float* b = nullptr;  // depth rows, each readable up to a multiple of SimdGemm::vector
  int64_t b_stride = 0;      // elements between rows of b
  float* c = nullptr;
  int64_t c_stride = 0;
  int columns = 0;          // at most SimdGemm::columns
  bool accumulate = false;  // start from C instead of 0
  // For the last part of k: add to row r, then apply a leaky ReLU.
  const float* row_bias = nullptr;
  bool relu = false;
  float slope = 0;
};

struct SimdGemm {
  static constexpr int kMaxRows = 12;
  static constexpr int kMaxColumns = 32;

  const char* name;  // "avx512"
  int rows;          // most rows of a tile
  int columns;       // most columns of a tile
  int vector;        // elements of one register
  void (*run)(int rows, const GemmTile& tile);
};

// What this processor can do best; null: neither of them.
const SimdGemm* FindSimdGemm();

// Rows are shared out evenly: tile t of RowTiles() covers rows [RowTile(t), RowTile(t + 1)).
inline int64_t RowTiles(const SimdGemm& simd, int64_t rows) {
  return (rows + simd.rows - 1) / simd.rows;
}
inline int64_t RowTile(int64_t rows, int64_t tiles, int64_t tile) { return rows * tile / tiles; }

// Elements that the packers below may write past the end of what they pack.
constexpr int64_t kPackSlack = 16;

// Packs rows x depth of A as tiles one after the other: tile, k, row. A[r, k] lies at
// a[r * stride + k], or at a[k * stride + r] when transposed, and is multiplied by alpha.
// Writes rows * depth elements, and up to kPackSlack more.
void PackRows(const SimdGemm& simd, bool transposed, int64_t rows, int64_t depth, float alpha,
              const float* a, int64_t stride, float* packed);

// Packs depth x columns of B as panels of simd.columns columns one after the other: panel, k,
// column; the last one is filled up with 0. B[k, n] lies at b[k * stride + n], or at b[n * stride +
// k] when transposed.
void PackColumns(const SimdGemm& simd, bool transposed, int64_t depth, int64_t columns,
                 const float* b, int64_t stride, float* packed);

// C = alpha op(A) op(B) + beta C, as Gemm, on this thread.
void SimdSgemm(const SimdGemm& simd, bool transpose_a, bool transpose_b, int64_t m, int64_t n,
               int64_t k, float alpha, const float* a, int64_t lda, const float* b, int64_t ldb,
               float beta, float* c, int64_t ldc);

}  // namespace crema
