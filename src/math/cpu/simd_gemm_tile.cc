#include <array>
#include <cstring>
#include <utility>

#include "core/processor.h"
#include "math/cpu/simd_gemm.h"
#include "math/relu_rule.h"

namespace crema {
namespace {

// Vector types of the compiler: operators are elementwise, and a scalar operand is broadcast.
template <typename T, int kBytes>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kBytes)));  // NOLINT: `using` drops the attribute
};

template <typename T, typename V>
[[gnu::always_inline]] inline void Load(const T* from, V* to) {
  std::memcpy(to, from, sizeof(V));
}
template <typename T, typename V>
[[gnu::always_inline]] inline void Store(const V* from, T* to) {
  std::memcpy(to, from, sizeof(V));
}

template <typename T, typename V, int kRows, int kVectors>
[[gnu::always_inline]] inline void Multiply(const BasicGemmTile<T>& t, V (&sum)[kRows][kVectors]) {
  const T* a = t.a;
  const T* b = t.b;
  for (int64_t k = 0; k < t.depth; ++k, a += kRows, b += t.b_stride) {
    V column[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      Load(b + v * static_cast<int>(sizeof(V) / sizeof(T)), &column[v]);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[r][v] += a[r] * column[v];
    }
  }
}

// Applies bias and ReLU and stores to C, for one register of a row. `c` has room for all of it.
template <typename T, typename V>
[[gnu::always_inline]] inline void Finish(const BasicGemmTile<T>& t, int row, const V& sum,
                                          const T* start, T* c) {
  V value = sum;
  if (start != nullptr) {
    V before;
    Load(start, &before);
    value += before;
  }
  if (t.row_bias != nullptr) value += t.row_bias[row];
  if (t.relu) ApplyRelu(t.slope, &value);
  Store(&value, c);
}

template <typename T, typename V, int kRows, int kVectors>
[[gnu::always_inline]] inline void RunTile(const BasicGemmTile<T>& t) {
  constexpr int kLanes = static_cast<int>(sizeof(V) / sizeof(T));
  V sum[kRows][kVectors] = {};
  Multiply(t, sum);
  if (t.columns == kVectors * kLanes) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        T* c = t.c + r * t.c_stride + v * kLanes;
        Finish(t, r, sum[r][v], t.accumulate ? c : nullptr, c);
      }
    }
    return;
  }
  T line[kVectors * kLanes] = {};
  const size_t bytes = static_cast<size_t>(t.columns) * sizeof(T);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    T* c = t.c + r * t.c_stride;
    if (t.accumulate) std::memcpy(line, c, bytes);
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      T* part = line + v * kLanes;
      Finish(t, r, sum[r][v], t.accumulate ? part : nullptr, part);
    }
    std::memcpy(c, line, bytes);
  }
}

// One register suffices for half a tile.
template <typename T, int kBytes, int kRows>
[[gnu::always_inline]] inline void RunColumns(const BasicGemmTile<T>& t) {
  using V = typename VectorOf<T, kBytes>::Type;
  if (t.columns * sizeof(T) <= sizeof(V)) {
    RunTile<T, V, kRows, 1>(t);
  } else {
    RunTile<T, V, kRows, 2>(t);
  }
}

template <typename T>
struct Portable {
  static constexpr const char* kName = "128 bits";
  static constexpr int kRows = 6, kBytes = 16;
  template <int rows>
  static void Run(const BasicGemmTile<T>& t) {
    RunColumns<T, kBytes, rows>(t);
  }
};

#if defined(__x86_64__)
template <typename T>
struct Avx2 {
  static constexpr const char* kName = "avx2";
  static constexpr int kRows = 6, kBytes = 32;
  template <int rows>
  [[gnu::target("avx2,fma")]] static void Run(const BasicGemmTile<T>& t) {
    RunColumns<T, kBytes, rows>(t);
  }
};

template <typename T>
struct Avx512 {
  static constexpr const char* kName = "avx512";
  static constexpr int kRows = 12, kBytes = 64;
  template <int rows>
  [[gnu::target("avx512f,fma")]] static void Run(const BasicGemmTile<T>& t) {
    RunColumns<T, kBytes, rows>(t);
  }
};
#endif

// Tiles of 1 to kRows rows.
template <typename T, typename Implementation, int... kIndex>
constexpr std::array<void (*)(const BasicGemmTile<T>&), sizeof...(kIndex)> TilesOf(
    std::integer_sequence<int, kIndex...>) {
  return {Implementation::template Run<kIndex + 1>...};
}

template <typename T, typename Implementation>
void RunRows(int rows, const BasicGemmTile<T>& tile) {
  static constexpr auto kTiles =
      TilesOf<T, Implementation>(std::make_integer_sequence<int, Implementation::kRows>());
  kTiles[static_cast<size_t>(rows - 1)](tile);
}

template <typename T, typename Implementation>
constexpr BasicSimdGemm<T> kGemmOf{Implementation::kName, Implementation::kRows,
                                   2 * Implementation::kBytes / static_cast<int>(sizeof(T)),
                                   Implementation::kBytes / static_cast<int>(sizeof(T)),
                                   RunRows<T, Implementation>};

}  // namespace

template <typename T>
const BasicSimdGemm<T>& FindSimdGemm([[maybe_unused]] int most_bytes) {
#if defined(__x86_64__)
  if (most_bytes >= Avx512<T>::kBytes && Processor().avx512) return kGemmOf<T, Avx512<T>>;
  if (most_bytes >= Avx2<T>::kBytes && Processor().avx2) return kGemmOf<T, Avx2<T>>;
#endif
  return kGemmOf<T, Portable<T>>;
}

template const BasicSimdGemm<float>& FindSimdGemm(int);
template const BasicSimdGemm<double>& FindSimdGemm(int);

}  // namespace crema
