// Tensors that notice writes outside their bounds.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/shape.h"
#include "core/tensor.h"

namespace crema::test {

// Bytes with guard bytes before and after them; all 0xFF, which is NaN as floating point.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(size_t bytes);
  std::span<std::byte> bytes() { return {storage_.data() + start_, size_}; }
  bool Intact() const;  // nobody wrote to the guards

 private:
  std::vector<std::byte> storage_;
  size_t start_;
  size_t size_;
};

// An f32, f64, u8 or i32 tensor in such bytes. Movable; views stay valid.
class GuardedTensor {
 public:
  GuardedTensor(const Shape& shape, DType dtype);
  GuardedTensor(GuardedTensor&&) noexcept = default;
  GuardedTensor& operator=(GuardedTensor&&) noexcept = default;

  TensorView view() const { return view_; }
  bool Intact() const { return buffer_.Intact(); }
  // Both not for i32; a value that u8 cannot hold must not come.
  void Set(std::span<const double> values);
  std::vector<double> Values() const;
  // From now on only the first elements count. Requires: no more than there are.
  void Shrink(const Shape& shape);
  std::vector<std::byte> Bytes() const;
  // Whether an element still has the bytes it was made with.
  bool HasUnwritten() const;

 private:
  GuardedBuffer buffer_;
  TensorView view_;
};

}  // namespace crema::test
