// Forward and backward of layers that normalise groups of elements to zero mean or unit size and
// then apply a learned scale and shift.
#pragma once

#include <cstdint>
#include <span>

#include "core/exec_context.h"
#include "core/shape.h"
#include "crema.pb.h"
#include "math/group_stats.h"

namespace crema {

struct NormLayout {
  GroupLayout groups;    // normalised together
  GroupLayout channels;  // share a scale and a shift
};

// Returns {1, product of the axes before `axis`, size of `axis`, product of the axes after it}. An
// input without that axis is one channel.
GroupLayout ChannelLayout(const Shape& shape, int axis);
// Returns the same for axis 1 of N x C x H x W in the blocked layout. Requires whole blocks.
GroupLayout BlockedChannelLayout(const Shape& shape);
// Returns one group for each index of the axes before `axis`.
GroupLayout LeadingLayout(const Shape& shape, int axis);

// Returns `filler` if it was given, else a constant filler of `value`.
FillerParameter FillerOr(bool given, const FillerParameter& filler, float value);

template <typename T>
struct GroupNormalizeForward {
  const T* x = nullptr;
  const double* center = nullptr;   // per group; null means 0
  const double* inverse = nullptr;  // per group; null means 1
  const T* scale = nullptr;         // per channel; null means 1
  const T* shift = nullptr;         // per channel; null means 0
  T* normal = nullptr;              // gets (x - center) * inverse; null means not needed
  T* y = nullptr;                   // may be x
};

template <typename T>
struct GroupNormalizeBackward {
  const T* dy = nullptr;
  const T* normal = nullptr;  // null if the inverse is constant; required with dscale
  const double* inverse = nullptr;
  // Factor of the gradient through the inverse; null means `inverse`. It differs if eps is added to
  // the root and not under it.
  const double* spread = nullptr;
  const T* scale = nullptr;
  T* dx = nullptr;            // null means not needed; may be dy
  T* dscale = nullptr;        // added to; null means not needed
  T* dshift = nullptr;        // added to; null means not needed
  bool measured = true;       // center and inverse were computed from x
  bool centered = true;       // the center was computed from x
  double divisor = 1;         // of the sum from which the inverse was computed
  RankSums* ranks = nullptr;  // the groups continue in the other ranks; null: they do not
};

// Adds to `sums`, of n elements a group, those of the other ranks, if `ranks` is not null. Returns
// the number of elements that they are of then, at least 1. The last of `sums` is room for it.
double SumWithCount(RankSums* ranks, double n, std::span<double> sums);

// Return the number of doubles of scratch that the passes need.
int64_t GroupNormalizeForwardScratch(const NormLayout& layout);
int64_t GroupNormalizeBackwardScratch(const NormLayout& layout);

// T is float or double. Thread safety: any, with scratch of its own.
template <typename T>
void NormalizeGroups(int threads, const NormLayout& layout, const GroupNormalizeForward<T>& pass,
                     double* scratch);
template <typename T>
void NormalizeGroups(int threads, const NormLayout& layout, const GroupNormalizeBackward<T>& pass,
                     double* scratch);

}  // namespace crema
