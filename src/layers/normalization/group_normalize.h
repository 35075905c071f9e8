// What all layers do that bring groups of elements to zero mean or unit size and then apply a
// learned scale and shift: forward and backward, given the groups.
#pragma once

#include <cstdint>

#include "core/shape.h"
#include "crema.pb.h"
#include "math/group_stats.h"

namespace crema {

struct NormLayout {
  GroupLayout groups;    // normalised together
  GroupLayout channels;  // share a scale and a shift
};

// {1, product of the axes before, extent, product of those behind}; inputs without that axis are
// one channel.
GroupLayout ChannelLayout(const Shape& shape, int axis);
// The same for axis 1 of N x C x H x W in the blocked format. Requires whole blocks.
GroupLayout BlockedChannelLayout(const Shape& shape);
// One group for each index of the axes before `axis`.
GroupLayout LeadingLayout(const Shape& shape, int axis);

// The filler of the text, or `value` where it gives none.
FillerParameter FillerOr(bool given, const FillerParameter& filler, float value);

template <typename T>
struct GroupNormalizeForward {
  const T* x = nullptr;
  const double* center = nullptr;   // by group; null: 0
  const double* inverse = nullptr;  // by group; null: 1
  const T* scale = nullptr;         // by channel; null: 1
  const T* shift = nullptr;         // by channel; null: 0
  T* normal = nullptr;              // receives (x - center) * inverse; null: not wanted
  T* y = nullptr;                   // may be x
};

template <typename T>
struct GroupNormalizeBackward {
  const T* dy = nullptr;
  const T* normal = nullptr;  // null: the inverse is constant; required with dscale
  const double* inverse = nullptr;
  // Of y -> x through the inverse itself; null: `inverse`. Other than it where eps is added to the
  // root and not under it.
  const double* spread = nullptr;
  const T* scale = nullptr;
  T* dx = nullptr;       // null: not wanted; may be dy
  T* dscale = nullptr;   // null: not wanted; added to
  T* dshift = nullptr;   // null: not wanted; added to
  bool measured = true;  // center and inverse were computed from x
  bool centered = true;  // the center was
  double divisor = 1;    // of the sum that became the inverse
};

// Doubles of scratch that the passes need.
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
