#include <cstring>

#include "math/cpu/simd_gemm.h"

namespace crema {

#if defined(__x86_64__) && defined(__GNUC__)

namespace {

// Vectors of the compiler: element-wise operators, and a number with a vector spreads the number.
typedef float Vector16 __attribute__((vector_size(64)));  // NOLINT: `using` drops the attribute
typedef float Vector8 __attribute__((vector_size(32)));   // NOLINT

template <typename V>
[[gnu::always_inline]] inline void Load(const float* from, V* to) {
  std::memcpy(to, from, sizeof(V));
}
template <typename V>
[[gnu::always_inline]] inline void Store(const V* from, float* to) {
  std::memcpy(to, from, sizeof(V));
}

template <typename V, int kRows, int kVectors>
[[gnu::always_inline]] inline void Multiply(const GemmTile& t, V (&sum)[kRows][kVectors]) {
  const float* a = t.a;
  const float* b = t.b;
  for (int64_t k = 0; k < t.depth; ++k, a += kRows, b += t.b_stride) {
    V column[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      Load(b + v * static_cast<int>(sizeof(V) / sizeof(float)), &column[v]);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[r][v] += a[r] * column[v];
    }
  }
}

// Bias, ReLU and the way to C, for one register of a row. `c` has room for all of it.
template <typename V>
[[gnu::always_inline]] inline void Finish(const GemmTile& t, int row, const V& sum,
                                          const float* start, float* c) {
  V value = sum;
  if (start != nullptr) {
    V before;
    Load(start, &before);
    value += before;
  }
  if (t.row_bias != nullptr) value += t.row_bias[row];
  if (t.relu) value = value > 0 ? value : t.slope * value;
  Store(&value, c);
}

template <typename V, int kRows, int kVectors>
[[gnu::always_inline]] inline void RunTile(const GemmTile& t) {
  constexpr int kLanes = static_cast<int>(sizeof(V) / sizeof(float));
  V sum[kRows][kVectors] = {};
  Multiply<V, kRows, kVectors>(t, sum);
  if (t.columns == kVectors * kLanes) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        float* c = t.c + r * t.c_stride + v * kLanes;
        Finish(t, r, sum[r][v], t.accumulate ? c : nullptr, c);
      }
    }
    return;
  }
  float line[kVectors * kLanes] = {};
  const size_t bytes = static_cast<size_t>(t.columns) * sizeof(float);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    float* c = t.c + r * t.c_stride;
    if (t.accumulate) std::memcpy(line, c, bytes);
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      float* part = line + v * kLanes;
      Finish(t, r, sum[r][v], t.accumulate ? part : nullptr, part);
    }
    std::memcpy(c, line, bytes);
  }
}

// One register suffices for half a tile.
template <typename V, int kRows>
[[gnu::always_inline]] inline void RunColumns(const GemmTile& t) {
  if (t.columns * sizeof(float) <= sizeof(V)) {
    RunTile<V, kRows, 1>(t);
  } else {
    RunTile<V, kRows, 2>(t);
  }
}

template <int kRows>
[[gnu::target("avx512f,fma")]] void RunAvx512(const GemmTile& t) {
  RunColumns<Vector16, kRows>(t);
}
template <int kRows>
[[gnu::target("avx2,fma")]] void RunAvx2(const GemmTile& t) {
  RunColumns<Vector8, kRows>(t);
}

using TileFunction = void (*)(const GemmTile&);
constexpr TileFunction kAvx512[] = {RunAvx512<1>, RunAvx512<2>,  RunAvx512<3>,  RunAvx512<4>,
                                    RunAvx512<5>, RunAvx512<6>,  RunAvx512<7>,  RunAvx512<8>,
                                    RunAvx512<9>, RunAvx512<10>, RunAvx512<11>, RunAvx512<12>};
constexpr TileFunction kAvx2[] = {RunAvx2<1>, RunAvx2<2>, RunAvx2<3>,
                                  RunAvx2<4>, RunAvx2<5>, RunAvx2<6>};

constexpr SimdGemm kAvx512Gemm{"avx512", 12, 32, 16,
                               [](int rows, const GemmTile& t) { kAvx512[rows - 1](t); }};
constexpr SimdGemm kAvx2Gemm{"avx2", 6, 16, 8,
                             [](int rows, const GemmTile& t) { kAvx2[rows - 1](t); }};

}  // namespace

const SimdGemm* FindSimdGemm() {
  if (__builtin_cpu_supports("avx512f")) return &kAvx512Gemm;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &kAvx2Gemm;
  return nullptr;
}

#else

const SimdGemm* FindSimdGemm() { return nullptr; }

#endif

}  // namespace crema
