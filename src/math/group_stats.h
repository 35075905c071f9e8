// Sums over groups of elements, and normalisation by them. Sums are in double precision and each is
// computed by one thread, so results are the same bits for any number of threads.
#pragma once

#include <cstdint>

namespace crema {

// The groups of a dense array: element (((n * outer + o) * runs + r) * inner + i) * run + k, with n
// below `repeats`, belongs to group o * inner + i. Planes of a batch: {planes, 1, 1, pixels};
// channels of a batch: {1, batch, channels, pixels}; pixels over their channels: {batch, channels,
// pixels, 1}; channels of a batch in blocks of b: {channels / b, pixels, b, 1, batch}.
struct GroupLayout {
  int64_t outer = 1;
  int64_t runs = 1;
  int64_t inner = 1;
  int64_t run = 1;
  int64_t repeats = 1;  // above 1 only if run is 1 and inner is not

  int64_t Groups() const { return outer * inner; }
  int64_t GroupSize() const { return repeats * runs * run; }
  int64_t Count() const { return Groups() * GroupSize(); }
  friend bool operator==(const GroupLayout&, const GroupLayout&) = default;
};

// One sum for each group. T is float or double. Thread safety: any.
template <typename T>
void GroupSums(int threads, const GroupLayout& layout, const T* x, double* sums);
// Sums of (x - center)^2; with a null `center`, of x^2.
template <typename T>
void GroupSquares(int threads, const GroupLayout& layout, const T* x, const double* center,
                  double* sums);
template <typename T>
void GroupDots(int threads, const GroupLayout& layout, const T* a, const T* b, double* sums);
// Means, and variances that divide by the number of elements; both 0 for empty groups.
template <typename T>
void GroupMoments(int threads, const GroupLayout& layout, const T* x, double* mean,
                  double* variance);

// y = (x - center) * scale + shift with one coefficient for each group; null: 0, 1 and 0. y may be
// x.
template <typename T>
void GroupNormalize(int threads, const GroupLayout& layout, const T* x, const double* center,
                    const double* scale, const double* shift, T* y);
// y = a * x + b * z + c with one coefficient for each group; `z` and `c` may be null. y may be x or
// z.
template <typename T>
void GroupCombine(int threads, const GroupLayout& layout, const double* a, const T* x,
                  const double* b, const T* z, const double* c, T* y);

}  // namespace crema
