// Pooling of planes, and its gradients.
#pragma once

#include <cstdint>

#include "core/host_device.h"
#include "core/rng.h"

namespace crema {

// Windows over one axis: window o covers [Start(o), start + kernel).
struct PoolAxis {
  int64_t in = 0;
  int64_t out = 0;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t pad = 0;

  CREMA_HOST_DEVICE int64_t Start(int64_t o) const { return o * stride - pad; }
  CREMA_HOST_DEVICE int64_t Begin(int64_t o) const { return Start(o) < 0 ? 0 : Start(o); }
  CREMA_HOST_DEVICE int64_t End(int64_t o) const {
    const int64_t end = Start(o) + kernel;
    return end < in ? end : in;
  }
  // The cells that AVE divides by: padding counts, cells beyond it do not.
  CREMA_HOST_DEVICE int64_t Padded(int64_t o) const {
    const int64_t end = Start(o) + kernel;
    return (end < in + pad ? end : in + pad) - Start(o);
  }
};

struct PoolWindow {
  PoolAxis h;
  PoolAxis w;
  int64_t InSize() const { return h.in * w.in; }
  int64_t OutSize() const { return h.out * w.out; }
};

// The position of a maximum in its window: kernel row * kernel width + kernel column. Index is
// uint8_t if windows are small enough, else int32_t; the largest uint8_t, or -1, means "none": a
// window without a value above -FLT_MAX.
constexpr int64_t kMaxSmallWindow = 255;
template <typename Index>
constexpr Index kNoIndex = static_cast<Index>(-1);

// For all functions below: `planes` contiguous planes; T is float or double, Index is uint8_t or
// int32_t. Thread safety: any.

// y = the first largest value of each window, -FLT_MAX if there is none; NaN is never larger.
// `index` may be null; `position`, which may be null too, is the position in the plane, or -1.
template <typename T, typename Index>
void MaxPool(const PoolWindow& window, int64_t planes, const T* x, T* y, Index* index);
template <typename T, typename Index>
void MaxPoolPositions(const PoolWindow& window, int64_t planes, const Index* index, T* position);
template <typename T, typename Index>
void MaxPoolBackward(const PoolWindow& window, int64_t planes, const Index* index, const T* dy,
                     T* dx);

// Requires that no window is empty. `exclude_pad`: divide by the cells inside the image.
template <typename T>
void AveragePool(const PoolWindow& window, bool exclude_pad, int64_t planes, const T* x, T* y);
template <typename T>
void AveragePoolBackward(const PoolWindow& window, bool exclude_pad, int64_t planes, const T* dy,
                         T* dx);

// Draws one value of each window with a probability proportional to it (0 if all are 0); output i
// uses element first_element + i of `random`. Requires pad 0 and values of 0 or more.
template <typename T, typename Index>
void StochasticPool(const PoolWindow& window, int64_t planes, const RandomStream& random,
                    int64_t first_element, const T* x, T* y, Index* index);
// The mean of each window, weighted by the values themselves; 0 unless their sum is above 0.
template <typename T>
void WeightedPool(const PoolWindow& window, int64_t planes, const T* x, T* y);
template <typename T>
void WeightedPoolBackward(const PoolWindow& window, int64_t planes, const T* x, const T* dy, T* dx);

}  // namespace crema
