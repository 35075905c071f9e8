#include "math/cpu/few_row_gemm.h"

#include <algorithm>
#include <cstring>

#include "core/memory_format.h"
#include "math/cpu/lanes.h"
#include "math/vectorize.h"

namespace crema {
namespace {

constexpr int kLanes = 16;
constexpr int kTile = 4;  // rows of A, and rows of B: 16 sums are kept in registers
using L = Lanes<kLanes>;

// A tile: 4 rows of A times 4 rows of B. Missing rows repeat the last one.
struct Rows {
  Rows(const float* base, int64_t stride, int64_t count) {
    for (int i = 0; i < kTile; ++i) row[i] = base + std::min<int64_t>(i, count - 1) * stride;
  }
  const float* row[kTile];
};

// Adds neighbouring lanes: those of `a`, then those of `b`.
[[gnu::always_inline]] inline void AddPairs(const L::Floats& a, const L::Floats& b,
                                            L::Floats* sums) {
  *sums = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
          __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}

// Loads the first `count` elements, then zeros.
[[gnu::always_inline]] inline void LoadPart(const float* from, int64_t count, L::Floats* value) {
  float part[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) part[i] = from[i];
  L::Load(part, value);
}

// dots[4 i + j] = row i of a times row j of b.
CREMA_MULTIVERSION void Dots(const Rows& a, const Rows& b, int64_t k, float* dots) {
  L::Floats sums[kTile * kTile] = {};
  L::Floats x[kTile], w;
  const int64_t whole = k / kLanes * kLanes;
  for (int64_t d = 0; d < whole; d += kLanes) {
    for (int i = 0; i < kTile; ++i) L::Load(a.row[i] + d, &x[i]);
    for (int j = 0; j < kTile; ++j) {
      L::Load(b.row[j] + d, &w);
      for (int i = 0; i < kTile; ++i) sums[i * kTile + j] += x[i] * w;
    }
  }
  if (whole < k) {
    for (int i = 0; i < kTile; ++i) LoadPart(a.row[i] + whole, k - whole, &x[i]);
    for (int j = 0; j < kTile; ++j) {
      LoadPart(b.row[j] + whole, k - whole, &w);
      for (int i = 0; i < kTile; ++i) sums[i * kTile + j] += x[i] * w;
    }
  }
  for (int count = kTile * kTile; count > 1; count /= 2) {
    for (int i = 0; i < count / 2; ++i) AddPairs(sums[2 * i], sums[2 * i + 1], &sums[i]);
  }
  L::Store(sums[0], dots);
}

}  // namespace

// Without AVX-512 there are too few registers for the sums.
bool FewRowGemmPays(int64_t m, int64_t k) {
  constexpr int64_t kMostRows = 16;
  const int64_t least_depth = m <= kTile ? 96 : 192;
  return m <= kMostRows && k >= least_depth && ChannelBlock() == kLanes;
}

void FewRowSgemm(int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
                 const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  float dots[kTile * kTile];
  for (int64_t j = 0; j < n; j += kTile) {
    const int64_t columns = std::min<int64_t>(kTile, n - j);
    const Rows weights(b + j * ldb, ldb, columns);
    for (int64_t i = 0; i < m; i += kTile) {
      const int64_t rows = std::min<int64_t>(kTile, m - i);
      Dots(Rows(a + i * lda, lda, rows), weights, k, dots);
      for (int64_t r = 0; r < rows; ++r) {
        float* to = c + (i + r) * ldc + j;
        for (int64_t t = 0; t < columns; ++t) {
          const float sum = alpha * dots[r * kTile + t];
          to[t] = beta == 0 ? sum : sum + beta * to[t];
        }
      }
    }
  }
}

}  // namespace crema
