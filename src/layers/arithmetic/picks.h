// Elements or slices of a tensor that an index chooses, in Gather and Scatter. The tensor x is
// chosen from; the index holds whole numbers, negative ones from the end.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/host_device.h"
#include "core/parallel_for.h"
#include "layers/arithmetic/indices.h"

namespace crema {

// Returns an index of any type as a number.
template <typename T>
CREMA_HOST_DEVICE inline double IndexNumber(T index) {
  return static_cast<double>(static_cast<float>(index));
}
CREMA_HOST_DEVICE inline double IndexNumber(double index) { return index; }

// Pick p of `count` is the run of `inner` elements of x that begins at Offset(index, p). Picks of
// different groups (p / (count / groups)) never overlap.
struct Picks {
  // Returns the offset in x; -1 if an index is not a whole number in its range.
  template <typename T>
  CREMA_HOST_DEVICE int64_t Offset(const T* index, int64_t p) const {
    int64_t offset = 0;
    if (!elements) {
      offset = p / (count / groups) * group_stride;
      for (int a = 0; a < axes; ++a) {
        const int64_t row = RowOfIndex(IndexNumber(index[p * axes + a]), sizes[a], true);
        if (row < 0) return -1;
        offset += row * strides[a];
      }
      return offset;
    }
    const int64_t row = RowOfIndex(IndexNumber(index[p]), size, true);
    if (row < 0) return -1;
    for (int a = axes - 1; a >= 0; --a) {
      offset += (a == axis ? row : p % sizes[a]) * strides[a];
      p /= sizes[a];
    }
    return offset;
  }

  bool elements = false;     // one number of the index is one pick, whose axes are those of x
  int axis = 0;              // of `elements`
  int64_t size = 0;          // of that axis of x
  int axes = 0;              // of `elements`; otherwise numbers of one pick
  int64_t count = 0;         // picks
  int64_t inner = 1;         // elements of one pick
  int64_t groups = 1;        // divides count, unless that is 0
  int64_t group_stride = 0;  // not for `elements`
  int64_t sizes[Shape::kMaxAxes]{};    // of the index for `elements`; otherwise of the chosen axes
  int64_t strides[Shape::kMaxAxes]{};  // of these axes in x
};

// Return the picks of an index of one number for each element along `axis` (0 <= axis < x.axes()),
// and those of an index whose last axis holds numbers for the axes of x after the first
// `batch_dims`. Throw like FailInputs if the shapes do not fit.
Picks ElementPicks(const Layer& layer, const Shape& x, const Shape& index, int axis);
Picks SlicePicks(const Layer& layer, const Shape& x, const Shape& index, int batch_dims);

// Returns the shape of SlicePicks: the axes of the index without the last one, then those of x
// after the chosen ones. Throws like FailInputs if these are too many.
Shape SlicesShape(const Layer& layer, const Shape& x, const Shape& index, int batch_dims);

// Throws like CheckIndices unless all picks lie in x. The index is bottom 1.
void CheckPicks(const Layer& layer, const Picks& picks, const ConstTensorView& index);

// Calls body(p, offset, begin, end) for elements [begin, end) of each pick p, in the order of p for
// each element of x. Requires: CheckPicks. T is float or double.
template <typename T, typename Body>
void ForPicks(int threads, const Picks& picks, const T* index, const Body& body) {
  constexpr int64_t kGrain = 1 << 12;  // minimum elements per thread
  if (picks.count * picks.inner == 0) return;
  const int64_t each = picks.count / picks.groups;
  const auto run = [&](int64_t first, int64_t last, int64_t begin, int64_t end) {
    for (int64_t p = first; p < last; ++p) body(p, picks.Offset(index, p), begin, end);
  };
  if (picks.groups > 1) {
    ParallelFor(
        threads, picks.groups, std::max<int64_t>(1, kGrain / (each * picks.inner)),
        [&](int64_t begin, int64_t end, int) { run(begin * each, end * each, 0, picks.inner); });
  } else {
    ParallelFor(threads, picks.inner, std::max<int64_t>(16, kGrain / each),
                [&](int64_t begin, int64_t end, int) { run(0, each, begin, end); });
  }
}

// A pick and its offset. Sorted by KeyBefore, the picks of one offset stay in order.
struct PickKey {
  int64_t offset;
  int64_t pick;
};

CREMA_HOST_DEVICE inline bool KeyBefore(const PickKey& a, const PickKey& b) {
  return a.offset < b.offset || (a.offset == b.offset && a.pick < b.pick);
}

// The picks keys[first, last), which have one offset.
struct PickRun {
  int64_t first;
  int64_t last;
};

// Returns the run that begins at keys[first]; an empty one if none begins there, or its picks lie
// outside x.
CREMA_HOST_DEVICE inline PickRun RunAt(const PickKey* keys, int64_t count, int64_t first) {
  const int64_t offset = keys[first].offset;
  if (offset < 0 || (first > 0 && keys[first - 1].offset == offset)) return {first, first};
  int64_t last = first + 1;
  while (last < count && keys[last].offset == offset) ++last;
  return {first, last};
}

}  // namespace crema
