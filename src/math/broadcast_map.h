// Positions in operands that are repeated along some axes of a result, as NumPy broadcasts them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "core/error.h"
#include "core/host_device.h"
#include "core/shape.h"

namespace crema {

// Axes of the result from the outermost to the innermost. Operands are contiguous, so the stride of
// one along the innermost axis is 1, or 0 if it is repeated. Thread safety: const.
struct BroadcastMap {
  // Sufficient for each Shape: axes of size 1 are left out, and 2^31 elements have 31 others.
  static constexpr int kMaxAxes = 32;
  static constexpr int kMaxOperands = 4;
  using Strides = std::array<int64_t, kMaxOperands>;

  // Adds an innermost axis, with the stride of each operand along it. Merges axes that are one axis
  // for all operands.
  void Add(int64_t size_of_axis, const Strides& steps) {
    if (size_of_axis == 1) return;
    count *= size_of_axis;
    bool merges = size > 0;
    for (int k = 0; k < kMaxOperands && merges; ++k) {
      merges = stride[k][size - 1] == size_of_axis * steps[static_cast<size_t>(k)];
    }
    if (!merges) {
      CREMA_CHECK(size < kMaxAxes);
      length[size++] = 1;
    }
    length[size - 1] *= size_of_axis;
    for (int k = 0; k < kMaxOperands; ++k) stride[k][size - 1] = steps[static_cast<size_t>(k)];
  }

  // Returns the position in an operand of element `i` of the result.
  CREMA_HOST_DEVICE int64_t PositionOf(int operand, int64_t i) const {
    auto rest = static_cast<uint32_t>(i);  // Shape has less than 2^31 elements
    int64_t position = 0;
    for (int a = size - 1; a > 0; --a) {
      const auto whole = static_cast<uint32_t>(length[a]);
      const uint32_t next = rest / whole;
      position += (rest - next * whole) * stride[operand][a];
      rest = next;
    }
    return position + rest * stride[operand][0];
  }

  // Returns the size of the innermost axis.
  int64_t inner() const { return size == 0 ? 1 : length[size - 1]; }

  // Returns true if the operand has each element once.
  bool IsWhole(int operand) const {
    return std::find(stride[operand], stride[operand] + size, 0) == stride[operand] + size;
  }

  int size = 0;
  int64_t count = 1;  // elements of the result
  int64_t length[kMaxAxes] = {};
  int64_t stride[kMaxOperands][kMaxAxes] = {};  // in elements
};

// Returns the map of a result made of operands that are repeated to its shape: axes are aligned at
// the end, and each axis of an operand divides that of the result. An empty result has no axes.
inline BroadcastMap MapOf(const Shape& result, std::span<const Shape* const> operands) {
  BroadcastMap map;
  map.count = result.count() == 0 ? 0 : 1;
  for (int a = 0; a < result.axes() && map.count > 0; ++a) {
    BroadcastMap::Strides strides{};
    int64_t own = 1;
    size_t k = 0;
    for (const Shape* operand : operands) {
      const int axis = a - result.axes() + operand->axes();
      const int64_t size = axis < 0 ? 1 : (*operand)[axis];
      if (size > 1) {
        strides[k] = operand->count(axis + 1);
        own = size;
      }
      ++k;
    }
    map.Add(result[a] / own, {});
    map.Add(own, strides);
  }
  return map;
}

}  // namespace crema
