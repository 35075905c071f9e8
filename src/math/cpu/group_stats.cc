// Sums over groups. If a group's elements are contiguous, several partial sums run side by side; if
// the elements of neighbouring groups alternate, several groups are summed at once.
#include "math/group_stats.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/parallel_for.h"
#include "math/vectorize.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 14;  // elements worth a thread
constexpr int64_t kLanes = 16;
constexpr int64_t kColumns = 64;  // groups summed at once

struct Plain {
  static inline double Of(double a, double, double) { return a; }
};
struct Squared {
  static inline double Of(double a, double, double center) { return (a - center) * (a - center); }
};
struct Product {
  static inline double Of(double a, double b, double) { return a * b; }
};

// The elements of one group, or of up to kColumns neighbouring ones.
template <typename T>
struct Elements {
  const T* a;
  const T* b;
  int64_t runs;
  int64_t stride;  // between runs
  int64_t run;
  int64_t repeats = 1;
  int64_t repeat_stride = 0;
};

template <typename Op, typename T>
inline double SumRuns(const Elements<T>& e, double center) {
  std::array<double, kLanes> lanes{};
  double rest = 0;
  for (int64_t r = 0; r < e.runs; ++r) {
    const T* a = e.a + r * e.stride;
    const T* b = e.b + r * e.stride;
    int64_t k = 0;
    for (; k + kLanes <= e.run; k += kLanes) {
      for (int64_t l = 0; l < kLanes; ++l) {
        lanes[static_cast<size_t>(l)] += Op::Of(a[k + l], b[k + l], center);
      }
    }
    for (; k < e.run; ++k) rest += Op::Of(a[k], b[k], center);
  }
  for (double lane : lanes) rest += lane;
  return rest;
}

template <typename Op, typename T>
inline void SumColumns(const Elements<T>& e, const double* center, double* sums) {
  std::array<double, kColumns> total{};
  for (int64_t row = 0; row < e.repeats * e.runs; ++row) {
    const int64_t at = row / e.runs * e.repeat_stride + row % e.runs * e.stride;
    const T* a = e.a + at;
    const T* b = e.b + at;
    for (int64_t j = 0; j < e.run; ++j) {
      total[static_cast<size_t>(j)] += Op::Of(a[j], b[j], center[j]);
    }
  }
  std::copy_n(total.begin(), e.run, sums);
}

// The hot loops, one function for each operation and type, since templates cannot be
// multiversioned.
CREMA_MULTIVERSION double Runs(Plain, const Elements<float>& e, double c) {
  return SumRuns<Plain>(e, c);
}
CREMA_MULTIVERSION double Runs(Squared, const Elements<float>& e, double c) {
  return SumRuns<Squared>(e, c);
}
CREMA_MULTIVERSION double Runs(Product, const Elements<float>& e, double c) {
  return SumRuns<Product>(e, c);
}
CREMA_MULTIVERSION void Columns(Plain, const Elements<float>& e, const double* c, double* sums) {
  SumColumns<Plain>(e, c, sums);
}
CREMA_MULTIVERSION void Columns(Squared, const Elements<float>& e, const double* c, double* sums) {
  SumColumns<Squared>(e, c, sums);
}
CREMA_MULTIVERSION void Columns(Product, const Elements<float>& e, const double* c, double* sums) {
  SumColumns<Product>(e, c, sums);
}
template <typename Op>
double Runs(Op, const Elements<double>& e, double c) {
  return SumRuns<Op>(e, c);
}
template <typename Op>
void Columns(Op, const Elements<double>& e, const double* c, double* sums) {
  SumColumns<Op>(e, c, sums);
}

template <typename Op, typename T>
void Reduce(int threads, const GroupLayout& g, const T* a, const T* b, const double* center,
            double* sums) {
  const int64_t stride = g.inner * g.run;
  const int64_t cost = std::max<int64_t>(1, g.GroupSize());
  if (g.run != 1 || g.inner == 1) {
    CREMA_CHECK(g.repeats == 1);
    ParallelFor(threads, g.Groups(), std::max<int64_t>(1, kGrain / cost),
                [&](int64_t begin, int64_t end, int) {
                  for (int64_t i = begin; i < end; ++i) {
                    const int64_t at = (i / g.inner) * g.runs * stride + (i % g.inner) * g.run;
                    sums[i] = Runs(Op{}, Elements<T>{a + at, b + at, g.runs, stride, g.run},
                                   center == nullptr ? 0 : center[i]);
                  }
                });
    return;
  }
  constexpr std::array<double, kColumns> kZeros{};
  const int64_t blocks = (g.inner + kColumns - 1) / kColumns;
  ParallelFor(
      threads, g.outer * blocks, std::max<int64_t>(1, kGrain / (cost * kColumns)),
      [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t first = i % blocks * kColumns;
          const int64_t at = i / blocks * g.runs * stride + first;
          const int64_t group = i / blocks * g.inner + first;
          Columns(Op{},
                  Elements<T>{a + at, b + at, g.runs, stride, std::min(kColumns, g.inner - first),
                              g.repeats, g.outer * g.runs * stride},
                  center == nullptr ? kZeros.data() : center + group, sums + group);
        }
      });
}

}  // namespace

template <typename T>
void GroupSums(int threads, const GroupLayout& layout, const T* x, double* sums) {
  Reduce<Plain>(threads, layout, x, x, nullptr, sums);
}

template <typename T>
void GroupSquares(int threads, const GroupLayout& layout, const T* x, const double* center,
                  double* sums) {
  Reduce<Squared>(threads, layout, x, x, center, sums);
}

template <typename T>
void GroupDots(int threads, const GroupLayout& layout, const T* a, const T* b, double* sums) {
  Reduce<Product>(threads, layout, a, b, nullptr, sums);
}

template <typename T>
void GroupMoments(int threads, const GroupLayout& layout, const T* x, double* mean,
                  double* variance) {
  const auto size = static_cast<double>(std::max<int64_t>(1, layout.GroupSize()));
  GroupSums(threads, layout, x, mean);
  for (int64_t g = 0; g < layout.Groups(); ++g) mean[g] /= size;
  GroupSquares(threads, layout, x, mean, variance);
  for (int64_t g = 0; g < layout.Groups(); ++g) variance[g] /= size;
}

template void GroupSums(int, const GroupLayout&, const float*, double*);
template void GroupSums(int, const GroupLayout&, const double*, double*);
template void GroupSquares(int, const GroupLayout&, const float*, const double*, double*);
template void GroupSquares(int, const GroupLayout&, const double*, const double*, double*);
template void GroupDots(int, const GroupLayout&, const float*, const float*, double*);
template void GroupDots(int, const GroupLayout&, const double*, const double*, double*);
template void GroupMoments(int, const GroupLayout&, const float*, double*, double*);
template void GroupMoments(int, const GroupLayout&, const double*, double*, double*);

}  // namespace crema
