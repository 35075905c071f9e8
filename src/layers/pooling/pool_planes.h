// One pooling method over windows of any number of axes. Up to two axes have fast code, the rest
// plain loops.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/dtype.h"
#include "math/pool_nd.h"

namespace crema {

class PoolPlanes {
 public:
  enum class Method {
    kMax,
    kAverage,
    kDrawn,     // one cell, drawn with a probability proportional to its value
    kWeighted,  // mean weighted by the values
  };

  // `exclude_pad` applies to kAverage.
  PoolPlanes(const PoolWindowNd& window, Method method, bool exclude_pad);

  // Returns true if an output is one cell of its window, whose index backward needs.
  bool TakesOneCell() const { return method_ == Method::kMax || method_ == Method::kDrawn; }
  // Returns the index type of all windows, the smallest that serves.
  DType IndexType() const { return small_ ? DType::kU8 : DType::kI32; }
  // Returns the number of input and output elements of one plane (all axes after the channels).
  int64_t in() const { return in_; }
  int64_t out() const { return out_; }

  // For implementations of their own, as on the GPU.
  const PoolWindowNd& window() const { return window_; }
  Method method() const { return method_; }
  bool exclude_pad() const { return exclude_pad_; }
  // Returns true if an index is a position in the window (kernel row * kernel width + kernel
  // column), false if it is a position in the plane.
  bool IndexIsInWindow() const { return is_plane_; }

  // All of these take `planes` consecutive planes. `index`, of IndexType() with one entry per
  // output, is used by methods that take one cell, and may be null in Forward. T is float or
  // double. Thread safety: any.
  template <typename T>
  void Forward(int64_t planes, const T* x, T* y, void* index, const RandomStream& random,
               int64_t first_element) const;
  // Writes positions in the plane; -1 means none.
  template <typename T>
  void Positions(int64_t planes, const void* index, T* positions) const;
  // Reads x only for kWeighted.
  template <typename T>
  void Backward(int64_t planes, const T* x, const T* dy, T* dx, const void* index) const;

  // Returns the address of index `element`; null if `index` is null.
  template <typename Void>
  Void* IndexAt(Void* index, int64_t element) const {
    using Byte = std::conditional_t<std::is_const_v<Void>, const char, char>;
    if (index == nullptr) return nullptr;
    return static_cast<Byte*>(index) + element * static_cast<int64_t>(SizeOf(IndexType()));
  }

 private:
  template <typename T, typename Index>
  void ForwardPlane(int64_t planes, const T* x, T* y, Index* index, const RandomStream& random,
                    int64_t first_element) const;
  template <typename T>
  void ForwardNd(int64_t planes, const T* x, T* y, int32_t* index, const RandomStream& random,
                 int64_t first_element) const;
  template <typename T>
  void BackwardNd(int64_t planes, const T* x, const T* dy, T* dx, const int32_t* index) const;

  const PoolWindowNd window_;
  const bool is_plane_;
  const PoolWindow plane_;
  const Method method_;
  const bool exclude_pad_;
  const int64_t in_;
  const int64_t out_;
  const bool small_;
};

}  // namespace crema
