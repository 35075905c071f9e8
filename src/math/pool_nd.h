// Pooling over any number of axes: what pool.h does for planes, in plain loops. Indices are places
// in the block of cells, -1 for "nowhere".
#pragma once

#include <array>
#include <cstdint>

#include "core/rng.h"
#include "core/shape.h"
#include "math/pool.h"

namespace crema {

struct PoolWindowNd {
  int size = 0;  // number of axes, at least 1
  std::array<PoolAxis, Shape::kMaxAxes> axes{};

  int64_t InSize() const;
  int64_t OutSize() const;
  // With one axis or two: the same as a window in a plane. Requires size <= 2.
  PoolWindow Plane() const;
};

// For all of these: `blocks` blocks of InSize() cells one after the other; T is float or double.
// What they give is said in pool.h. Thread safety: any.
template <typename T>
void MaxPoolNd(const PoolWindowNd& window, int64_t blocks, const T* x, T* y, int32_t* index);
template <typename T>
void StochasticPoolNd(const PoolWindowNd& window, int64_t blocks, const RandomStream& random,
                      int64_t first_element, const T* x, T* y, int32_t* index);
// The gradient of both.
template <typename T>
void OneCellBackwardNd(const PoolWindowNd& window, int64_t blocks, const int32_t* index,
                       const T* dy, T* dx);

template <typename T>
void AveragePoolNd(const PoolWindowNd& window, bool exclude_pad, int64_t blocks, const T* x, T* y);
template <typename T>
void AveragePoolNdBackward(const PoolWindowNd& window, bool exclude_pad, int64_t blocks,
                           const T* dy, T* dx);

template <typename T>
void WeightedPoolNd(const PoolWindowNd& window, int64_t blocks, const T* x, T* y);
template <typename T>
void WeightedPoolNdBackward(const PoolWindowNd& window, int64_t blocks, const T* x, const T* dy,
                            T* dx);

}  // namespace crema
