// Elementwise operations with coefficients of groups.
#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/parallel_for.h"
#include "math/group_stats.h"
#include "math/vectorize.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 14;  // elements worth a thread
constexpr int64_t kColumns = 64;

// y = (x - center) * a + c, or y = a * x + b * z + c if z is given.
template <typename T>
struct Coefficients {
  T center, a, b, c;
};

template <typename T>
inline void ApplyRun(const Coefficients<T>& k, const T* x, const T* z, T* y, int64_t count) {
  if (z == nullptr) {
    for (int64_t i = 0; i < count; ++i) y[i] = (x[i] - k.center) * k.a + k.c;
  } else {
    for (int64_t i = 0; i < count; ++i) y[i] = k.a * x[i] + k.b * z[i] + k.c;
  }
}
CREMA_MULTIVERSION void Run(const Coefficients<float>& k, const float* x, const float* z, float* y,
                            int64_t count) {
  ApplyRun(k, x, z, y, count);
}
void Run(const Coefficients<double>& k, const double* x, const double* z, double* y,
         int64_t count) {
  ApplyRun(k, x, z, y, count);
}

// The coefficients of neighbouring groups whose elements alternate.
template <typename T>
struct ColumnCoefficients {
  std::array<T, kColumns> center, a, b, c;
};

template <typename T>
inline void ApplyColumns(const ColumnCoefficients<T>& k, const T* x, const T* z, T* y,
                         size_t count) {
  if (z == nullptr) {
    for (size_t i = 0; i < count; ++i) y[i] = (x[i] - k.center[i]) * k.a[i] + k.c[i];
  } else {
    for (size_t i = 0; i < count; ++i) y[i] = k.a[i] * x[i] + k.b[i] * z[i] + k.c[i];
  }
}
CREMA_MULTIVERSION void Columns(const ColumnCoefficients<float>& k, const float* x, const float* z,
                                float* y, size_t count) {
  ApplyColumns(k, x, z, y, count);
}
void Columns(const ColumnCoefficients<double>& k, const double* x, const double* z, double* y,
             size_t count) {
  ApplyColumns(k, x, z, y, count);
}

// Tables by group; null: the neutral value.
struct Tables {
  const double* center;
  const double* a;
  const double* b;
  const double* c;

  template <typename T>
  Coefficients<T> At(int64_t group) const {
    const auto value = [&](const double* table, double neutral) {
      return static_cast<T>(table == nullptr ? neutral : table[group]);
    };
    return {value(center, 0), value(a, 1), value(b, 0), value(c, 0)};
  }
};

template <typename T>
void ApplyRows(const GroupLayout& g, const Tables& tables, const T* x, const T* z, T* y,
               int64_t begin, int64_t end) {
  const int64_t slab = g.runs * g.inner;
  for (int64_t q = begin; q < end; ++q) {
    const int64_t at = q * g.run;
    Run(tables.At<T>(q / slab * g.inner + q % g.inner), x + at, z == nullptr ? nullptr : z + at,
        y + at, g.run);
  }
}

// Processes rows [begin, end) of repeats * outer * runs, for groups whose elements alternate.
template <typename T>
void ApplyAlternating(const GroupLayout& g, const Tables& tables, const T* x, const T* z, T* y,
                      int64_t begin, int64_t end) {
  ColumnCoefficients<T> k;
  for (int64_t row = begin; row < end;) {
    const int64_t outer = row / g.runs % g.outer;
    const int64_t stop = std::min(end, (row / g.runs + 1) * g.runs);
    for (int64_t first = 0; first < g.inner; first += kColumns) {
      const auto width = static_cast<size_t>(std::min(kColumns, g.inner - first));
      for (size_t j = 0; j < width; ++j) {
        const auto one = tables.At<T>(outer * g.inner + first + static_cast<int64_t>(j));
        k.center[j] = one.center;
        k.a[j] = one.a;
        k.b[j] = one.b;
        k.c[j] = one.c;
      }
      for (int64_t r = row; r < stop; ++r) {
        const int64_t at = r * g.inner + first;
        Columns(k, x + at, z == nullptr ? nullptr : z + at, y + at, width);
      }
    }
    row = stop;
  }
}

template <typename T>
void Apply(int threads, const GroupLayout& g, const Tables& tables, const T* x, const T* z, T* y) {
  if (g.Count() == 0) return;
  const bool rows = g.run != 1 || g.inner == 1;
  CREMA_CHECK(!rows || g.repeats == 1);
  const int64_t pieces = g.repeats * g.outer * g.runs * (rows ? g.inner : 1);
  const int64_t cost = rows ? g.run : g.inner;
  ParallelFor(threads, pieces, std::max<int64_t>(1, kGrain / cost),
              [&](int64_t begin, int64_t end, int) {
                (rows ? ApplyRows<T> : ApplyAlternating<T>)(g, tables, x, z, y, begin, end);
              });
}

}  // namespace

template <typename T>
void GroupNormalize(int threads, const GroupLayout& layout, const T* x, const double* center,
                    const double* scale, const double* shift, T* y) {
  Apply<T>(threads, layout, {center, scale, nullptr, shift}, x, nullptr, y);
}

template <typename T>
void GroupCombine(int threads, const GroupLayout& layout, const double* a, const T* x,
                  const double* b, const T* z, const double* c, T* y) {
  Apply<T>(threads, layout, {nullptr, a, b, c}, x, z, y);
}

template void GroupNormalize(int, const GroupLayout&, const float*, const double*, const double*,
                             const double*, float*);
template void GroupNormalize(int, const GroupLayout&, const double*, const double*, const double*,
                             const double*, double*);
template void GroupCombine(int, const GroupLayout&, const double*, const float*, const double*,
                           const float*, const double*, float*);
template void GroupCombine(int, const GroupLayout&, const double*, const double*, const double*,
                           const double*, const double*, double*);

}  // namespace crema
