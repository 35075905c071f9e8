// Copies a block of elements between two places with different strides: parts of a blob, and blobs
// with their axes in another order.
#pragma once

#include <array>
#include <cstdint>

#include "core/shape.h"

namespace crema {

// Axes from the outermost to the innermost, in the order of the destination.
struct StridedBlock {
  struct Axis {
    int64_t length = 1;
    int64_t from = 0;  // stride in the source, in elements
    int64_t to = 0;    // stride in the destination
  };
  static constexpr int kMaxAxes = Shape::kMaxAxes + 4;

  // Adds an innermost axis. Merges axes that are contiguous in both places.
  void Add(int64_t length, int64_t from_stride, int64_t to_stride);

  // Returns the block with source and destination exchanged.
  StridedBlock Reversed() const;

  int64_t count() const;

  std::array<Axis, kMaxAxes> axes{};
  int size = 0;
  int64_t from = 0;  // offset of the block in the source, in elements
  int64_t to = 0;    // offset in the destination
};

// Copies the block, with its offsets added to `from` and `to`. T is float, double or BFloat16.
// Source and destination must not overlap. Thread safety: any.
template <typename T>
void CopyStrided(int threads, const StridedBlock& block, const T* from, T* to);

}  // namespace crema
