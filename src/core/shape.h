// The shape of a tensor.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace crema {

// Up to 32 axes, row-major, last axis fastest. Without axes it is a scalar with one element; a
// dimension may be 0. Immutable except for assignment; copies do not allocate.
class Shape {
 public:
  static constexpr int kMaxAxes = 32;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims);
  // Throws kInvalidArgument: more than 32 axes, a negative dimension, or more than 2^31-1 elements
  // (Caffe's limit for one blob), not counting dimensions of 0.
  explicit Shape(std::span<const int64_t> dims);

  int axes() const { return axes_; }
  int64_t operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(axes_)}; }
  int64_t count() const { return count_; }
  // Returns the product of the dimensions of axes [begin, end).
  int64_t count(int begin, int end) const;
  int64_t count(int begin) const { return count(begin, axes_); }

  // Maps -axes()..axes()-1 to 0..axes()-1. Throws kInvalidArgument outside.
  int CanonicalAxis(int64_t axis) const;

  // Returns a copy with the size of one axis replaced.
  Shape With(int axis, int64_t size) const;

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::array<int64_t, kMaxAxes> dims_{};
  int axes_ = 0;
  int64_t count_ = 1;
};

std::string ToString(const Shape& shape);  // "64x1x28x28"; "scalar" without axes

}  // namespace crema
