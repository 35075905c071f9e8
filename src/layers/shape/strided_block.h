// Copies a block of elements between two places where they are spaced differently: parts of a blob,
// and blobs with their axes in another order.
#pragma once

#include <array>
#include <cstdint>

#include "core/shape.h"

namespace crema {

// Axes from the slowest to the fastest, in the order of the place that is written.
struct StridedBlock {
  struct Axis {
    int64_t extent = 1;
    int64_t from = 0;  // elements between neighbours where it is read
    int64_t to = 0;    // and where it is written
  };
  static constexpr int kMaxAxes = Shape::kMaxAxes + 4;

  // Puts an axis behind the others. Axes that run on in both places become one.
  void Add(int64_t extent, int64_t from_stride, int64_t to_stride);

  // The same block with the two places exchanged.
  StridedBlock Reversed() const;

  int64_t count() const;

  std::array<Axis, kMaxAxes> axes{};
  int size = 0;
  int64_t from = 0;  // elements in front of the block where it is read
  int64_t to = 0;    // and where it is written
};

// Adds the offsets of the block to `from` and `to`. T is float, double or BFloat16. The places may
// not overlap. Thread safety: any.
template <typename T>
void CopyStrided(int threads, const StridedBlock& block, const T* from, T* to);

}  // namespace crema
