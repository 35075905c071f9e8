// Pooling over any number of axes: the functions of pool.h in plain loops. Indices are positions in
// the block of cells, -1 for "none".
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
  // The same window in a plane, for one axis or two. Requires size <= 2.
  PoolWindow Plane() const;
};

// For all functions below: `blocks` contiguous blocks of InSize() cells; T is float or double.
// Results are as in pool.h. Thread safety: any.
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
