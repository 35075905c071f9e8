// Typed, shaped memory: tensors and views.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "core/allocator.h"
#include "core/device.h"
#include "core/dtype.h"
#include "core/memory_format.h"
#include "core/shape.h"

namespace crema {

// Shape, type and format of a tensor to be created.
struct BlobSpec {
  Shape shape;
  DType dtype = DType::kF32;
  MemoryFormat format = {};
};

// Returns the number of elements in memory, including the padding of channel blocks.
int64_t StoredCount(const BlobSpec& spec);
// Returns the element type in memory: that of the blob, unless the format has its own.
inline DType StoredType(const BlobSpec& spec) { return spec.format.type.value_or(spec.dtype); }
inline int64_t StoredBytes(const BlobSpec& spec) {
  return StoredCount(spec) * static_cast<int64_t>(SizeOf(StoredType(spec)));
}

// View, read-only or not, of dense elements, row-major except for implementations that use another
// memory format (the shape is N x C x H x W in each). A default view is empty(): the caller does
// not want the tensor, or has no access to it. Implementations with strided_output may get a view
// whose images (axis 0) are further apart than their size. Copies are cheap and do not allocate.
template <bool kConst>
class BasicTensorView {
 public:
  template <typename T>
  using Element = std::conditional_t<kConst, const T, T>;
  using Memory = Element<void>;

  BasicTensorView() = default;
  BasicTensorView(Memory* data, const Shape& shape, DType dtype, Device device = {})
      : data_(data), shape_(shape), dtype_(dtype), device_(device) {}
  template <bool kOther>
  requires(kConst && !kOther)
      BasicTensorView(const BasicTensorView<kOther>& other)  // NOLINT: widening
      : BasicTensorView(other.raw(), other.shape(), other.dtype(), other.device()) {
    image_stride_ = other.image_stride();
  }

  bool empty() const { return data_ == nullptr; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  int64_t count() const { return shape_.count(); }
  size_t bytes() const { return static_cast<size_t>(count()) * SizeOf(dtype_); }
  Memory* raw() const { return data_; }
  // Returns the distance between images in elements; 0: dense.
  int64_t image_stride() const { return image_stride_; }
  void set_image_stride(int64_t elements) { image_stride_ = elements; }

  // Requires: T is the element type; `span`: only for dense views.
  template <typename T>
  Element<T>* data() const {
    CREMA_CHECK(dtype_ == DTypeOf<T>::value);
    return static_cast<Element<T>*>(data_);
  }
  template <typename T>
  std::span<Element<T>> span() const {
    CREMA_CHECK(image_stride_ == 0);
    return {data<T>(), static_cast<size_t>(count())};
  }

 private:
  Memory* data_ = nullptr;
  Shape shape_;
  DType dtype_ = DType::kF32;
  Device device_;
  int64_t image_stride_ = 0;
};
using ConstTensorView = BasicTensorView<true>;
using TensorView = BasicTensorView<false>;  // for outputs of a layer

// Owns its memory; can be moved, but not copied. Zero-initialized.
class Tensor {
 public:
  Tensor() = default;
  Tensor(const Shape& shape, DType dtype, Allocator& allocator = CpuAllocator());
  ~Tensor();
  Tensor(Tensor&& other) noexcept;
  Tensor& operator=(Tensor&& other) noexcept;

  TensorView view() { return {data_, shape_, dtype_, device_}; }
  ConstTensorView view() const { return {data_, shape_, dtype_, device_}; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }

 private:
  Allocator* allocator_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
  Shape shape_;
  DType dtype_ = DType::kF32;
  Device device_;
};

}  // namespace crema
