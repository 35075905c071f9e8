// Tensors that detect writes outside their bounds.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/allocator.h"
#include "core/shape.h"
#include "core/tensor.h"

namespace crema::test {

// Bytes with guard bytes before and after them; all 0xFF, which is NaN as floating point. In memory
// that the CPU can touch.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(size_t bytes, Allocator& memory = CpuAllocator());
  std::span<std::byte> bytes() { return {data() + start_, size_}; }
  bool Intact() const;  // the guards are unchanged

 private:
  std::byte* data() { return static_cast<std::byte*>(storage_.view().raw()); }

  Tensor storage_;
  size_t start_;
  size_t size_;
};

// An f32, f64, bf16, f16, u8 or i32 tensor in such bytes. Movable; views stay valid.
class GuardedTensor {
 public:
  GuardedTensor(const Shape& shape, DType dtype, Allocator& memory = CpuAllocator())
      : GuardedTensor(BlobSpec{shape, dtype}, memory) {}
  explicit GuardedTensor(const BlobSpec& spec, Allocator& memory = CpuAllocator());
  GuardedTensor(GuardedTensor&&) noexcept = default;
  GuardedTensor& operator=(GuardedTensor&&) noexcept = default;

  TensorView view() const { return view_; }
  bool Intact() const { return buffer_.Intact(); }
  // Both row-major, for any layout, and not for i32; values must fit u8. The padding of blocks is
  // set to 0.
  void Set(std::span<const double> values);
  std::vector<double> Values() const;
  // From now on only the first elements count. Requires: no more than there are.
  void Shrink(const Shape& shape);
  std::vector<std::byte> Bytes() const;
  // Returns true if an element still has its initial bytes.
  bool HasUnwritten() const;
  // Returns true if the padding of blocks is 0.
  bool FillIsZero() const;

 private:
  std::vector<int64_t> Places() const;  // in memory, of the elements in row-major order

  MemoryFormat format_;
  size_t stored_bytes_;
  GuardedBuffer buffer_;
  TensorView view_;
};

}  // namespace crema::test
