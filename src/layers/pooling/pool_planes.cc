#include "layers/pooling/pool_planes.h"

#include <limits>

namespace crema {
namespace {

// Returns true if the code for planes serves. It takes up to two axes and numbers the cells of a
// window in 32 bits.
bool IsPlane(const PoolWindowNd& window) {
  int64_t cells = 1;
  for (int a = 0; a < window.size; ++a) {
    const int64_t kernel = window.axes[static_cast<size_t>(a)].kernel;
    if (kernel > std::numeric_limits<int32_t>::max() / cells) return false;
    cells *= kernel;
  }
  return window.size <= 2;
}

}  // namespace

PoolPlanes::PoolPlanes(const PoolWindowNd& window, Method method, bool exclude_pad)
    : window_(window),
      is_plane_(IsPlane(window)),
      plane_(is_plane_ ? window.Plane() : PoolWindow{}),
      method_(method),
      exclude_pad_(exclude_pad),
      in_(window.InSize()),
      out_(window.OutSize()),
      small_(is_plane_ && plane_.h.kernel * plane_.w.kernel <= kMaxSmallWindow) {}

template <typename T, typename Index>
void PoolPlanes::ForwardPlane(int64_t planes, const T* x, T* y, Index* index,
                              const RandomStream& random, int64_t first_element) const {
  switch (method_) {
    case Method::kMax:
      return MaxPool(plane_, planes, x, y, index);
    case Method::kDrawn:
      return StochasticPool(plane_, planes, random, first_element, x, y, index);
    case Method::kAverage:
      return AveragePool(plane_, exclude_pad_, planes, x, y);
    case Method::kWeighted:
      return WeightedPool(plane_, planes, x, y);
  }
}

template <typename T>
void PoolPlanes::ForwardNd(int64_t planes, const T* x, T* y, int32_t* index,
                           const RandomStream& random, int64_t first_element) const {
  switch (method_) {
    case Method::kMax:
      return MaxPoolNd(window_, planes, x, y, index);
    case Method::kDrawn:
      return StochasticPoolNd(window_, planes, random, first_element, x, y, index);
    case Method::kAverage:
      return AveragePoolNd(window_, exclude_pad_, planes, x, y);
    case Method::kWeighted:
      return WeightedPoolNd(window_, planes, x, y);
  }
}

template <typename T>
void PoolPlanes::Forward(int64_t planes, const T* x, T* y, void* index, const RandomStream& random,
                         int64_t first_element) const {
  if (!is_plane_) {
    ForwardNd(planes, x, y, static_cast<int32_t*>(index), random, first_element);
  } else if (small_) {
    ForwardPlane(planes, x, y, static_cast<uint8_t*>(index), random, first_element);
  } else {
    ForwardPlane(planes, x, y, static_cast<int32_t*>(index), random, first_element);
  }
}

template <typename T>
void PoolPlanes::Positions(int64_t planes, const void* index, T* positions) const {
  if (!is_plane_) {
    const auto* places = static_cast<const int32_t*>(index);
    for (int64_t o = 0; o < planes * out_; ++o) positions[o] = static_cast<T>(places[o]);
  } else if (small_) {
    MaxPoolPositions(plane_, planes, static_cast<const uint8_t*>(index), positions);
  } else {
    MaxPoolPositions(plane_, planes, static_cast<const int32_t*>(index), positions);
  }
}

template <typename T>
void PoolPlanes::BackwardNd(int64_t planes, const T* x, const T* dy, T* dx,
                            const int32_t* index) const {
  if (TakesOneCell()) {
    OneCellBackwardNd(window_, planes, index, dy, dx);
  } else if (method_ == Method::kAverage) {
    AveragePoolNdBackward(window_, exclude_pad_, planes, dy, dx);
  } else {
    WeightedPoolNdBackward(window_, planes, x, dy, dx);
  }
}

template <typename T>
void PoolPlanes::Backward(int64_t planes, const T* x, const T* dy, T* dx, const void* index) const {
  if (!is_plane_) {
    BackwardNd(planes, x, dy, dx, static_cast<const int32_t*>(index));
  } else if (method_ == Method::kAverage) {
    AveragePoolBackward(plane_, exclude_pad_, planes, dy, dx);
  } else if (method_ == Method::kWeighted) {
    WeightedPoolBackward(plane_, planes, x, dy, dx);
  } else if (small_) {
    MaxPoolBackward(plane_, planes, static_cast<const uint8_t*>(index), dy, dx);
  } else {
    MaxPoolBackward(plane_, planes, static_cast<const int32_t*>(index), dy, dx);
  }
}

template void PoolPlanes::Forward(int64_t, const float*, float*, void*, const RandomStream&,
                                  int64_t) const;
template void PoolPlanes::Positions(int64_t, const void*, float*) const;
template void PoolPlanes::Backward(int64_t, const float*, const float*, float*, const void*) const;
template void PoolPlanes::Forward(int64_t, const double*, double*, void*, const RandomStream&,
                                  int64_t) const;
template void PoolPlanes::Positions(int64_t, const void*, double*) const;
template void PoolPlanes::Backward(int64_t, const double*, const double*, double*,
                                   const void*) const;

}  // namespace crema
