// A list with one entry for each axis of a shape, without memory of its own.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>

#include "core/error.h"
#include "core/shape.h"

namespace crema {

template <typename T>
class AxisList {
 public:
  AxisList() = default;
  AxisList(std::initializer_list<T> entries) {
    for (const T& entry : entries) push_back(entry);
  }

  // Requires: fewer than Shape::kMaxAxes entries.
  void push_back(const T& entry) {
    CREMA_CHECK(size_ < entries_.size());
    entries_[size_++] = entry;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t index) { return entries_[index]; }
  const T& operator[](size_t index) const { return entries_[index]; }
  T& back() { return entries_[size_ - 1]; }
  T* begin() { return entries_.data(); }
  T* end() { return entries_.data() + size_; }
  const T* begin() const { return entries_.data(); }
  const T* end() const { return entries_.data() + size_; }
  const T* data() const { return entries_.data(); }

 private:
  std::array<T, Shape::kMaxAxes> entries_{};
  size_t size_ = 0;
};

}  // namespace crema
