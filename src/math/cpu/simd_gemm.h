// The inner loops of matrix products: for AVX-512, for AVX2, and for all other processors.
#pragma once

#include <cstdint>
#include <type_traits>

namespace crema {

// A tile of C, held in registers: C[r, n] = (start +) sum over k of a[k, r] * b[k, n].
template <typename T>
struct BasicGemmTile {
  int64_t depth = 0;     // k
  const T* a = nullptr;  // packed: depth rows of `rows` elements
  const T* b = nullptr;  // depth rows, each readable up to a multiple of SimdGemm::vector
  int64_t b_stride = 0;  // elements between rows of b
  T* c = nullptr;
  int64_t c_stride = 0;
  int columns = 0;          // at most SimdGemm::columns
  bool accumulate = false;  // start from C instead of 0
  // For the last part of k: add to row r, then apply a leaky ReLU.
  const T* row_bias = nullptr;
  bool relu = false;
  T slope = 0;
};
using GemmTile = BasicGemmTile<float>;

// T is float or double.
template <typename T>
struct BasicSimdGemm {
  static constexpr int kMaxRows = 12;
  static constexpr int kMaxColumns = 128 / static_cast<int>(sizeof(T));

  const char* name;  // "avx512"
  int rows;          // most rows of a tile
  int columns;       // most columns of a tile
  int vector;        // elements of one register
  void (*run)(int rows, const BasicGemmTile<T>& tile);
};
using SimdGemm = BasicSimdGemm<float>;

// Returns the widest one that this processor can run, with registers of at most `most_bytes`. Every
// processor runs the one of 16 bytes.
template <typename T>
const BasicSimdGemm<T>& FindSimdGemm(int most_bytes = 64);

// Divides rows evenly: tile t of RowTiles() covers rows [RowTile(t), RowTile(t + 1)).
template <typename T>
int64_t RowTiles(const BasicSimdGemm<T>& simd, int64_t rows) {
  return (rows + simd.rows - 1) / simd.rows;
}
inline int64_t RowTile(int64_t rows, int64_t tiles, int64_t tile) { return rows * tile / tiles; }

// Number of elements that the packers below may write past the end of the packed ones.
constexpr int64_t kPackSlack = 16;

// Packs rows x depth of A as contiguous tiles: tile, k, row. A[r, k] is a[r * stride + k], or a[k *
// stride + r] when transposed, and is multiplied by alpha. Writes rows * depth elements, and up to
// kPackSlack more.
template <typename T>
void PackRows(const BasicSimdGemm<T>& simd, bool transposed, int64_t rows, int64_t depth,
              std::type_identity_t<T> alpha, const T* a, int64_t stride, T* packed);

// Packs depth x columns of B as contiguous panels of simd.columns columns: panel, k, column; the
// last one is padded with 0. B[k, n] is b[k * stride + n], or b[n * stride + k] when transposed.
template <typename T>
void PackColumns(const BasicSimdGemm<T>& simd, bool transposed, int64_t depth, int64_t columns,
                 const T* b, int64_t stride, T* packed);

// C = alpha op(A) op(B) + beta C, as Gemm, on this thread. The first call of a thread allocates
// 0.6 MB, which the thread keeps. Throws kOutOfMemory. Thread safety: any number of threads.
template <typename T>
void RunSimdGemm(const BasicSimdGemm<T>& simd, bool transpose_a, bool transpose_b, int64_t m,
                 int64_t n, int64_t k, T alpha, const T* a, int64_t lda, const T* b, int64_t ldb,
                 T beta, T* c, int64_t ldc);

}  // namespace crema
