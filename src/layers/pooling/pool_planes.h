// One way to pool, over windows of any number of axes: planes have the fast code, the rest plain
// loops.
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
    kDrawn,     // one cell, with a chance in proportion to its value
    kWeighted,  // the mean weighted by the values
  };

  // `exclude_pad` is for kAverage.
  PoolPlanes(const PoolWindowNd& window, Method method, bool exclude_pad);

  // Whether an output is one cell of its window, whose index backward needs.
  bool TakesOneCell() const { return method_ == Method::kMax || method_ == Method::kDrawn; }
  // One type of index for all windows, as small as can be.
  DType IndexType() const { return small_ ? DType::kU8 : DType::kI32; }
  // Of one plane, or whatever lies behind the channels.
  int64_t in() const { return in_; }
  int64_t out() const { return out_; }

  // For other ways to do the same.
  const PoolWindowNd& window() const { return window_; }
  Method method() const { return method_; }
  bool exclude_pad() const { return exclude_pad_; }
  // What an index is: a place in the window (kernel row * kernel width + kernel column), or in the
  // plane.
  bool IndexIsInWindow() const { return is_plane_; }

  // For all of these: `planes` planes one after the other. `index`, of IndexType() and one for each
  // output, is used by methods that take one cell, and may be null in Forward. T is float or
  // double. Thread safety: any.
  template <typename T>
  void Forward(int64_t planes, const T* x, T* y, void* index, const RandomStream& random,
               int64_t first_element) const;
  // Places in the plane, -1 for nowhere.
  template <typename T>
  void Positions(int64_t planes, const void* index, T* positions) const;
  // Reads x for kWeighted only.
  template <typename T>
  void Backward(int64_t planes, const T* x, const T* dy, T* dx, const void* index) const;

  // The address of index `element`; null of null.
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
