#include "core/tensor.h"

#include <algorithm>
#include <utility>

namespace crema {

int64_t StoredCount(const BlobSpec& spec) {
  if (spec.format.layout != Layout::kBlocked) return spec.shape.count();
  const int64_t block = ChannelBlock();
  const int64_t channels = (spec.shape[1] + block - 1) / block * block;
  return spec.shape.With(1, channels).count();
}

Tensor::Tensor(const Shape& shape, DType dtype, Allocator& allocator)
    : allocator_(&allocator),
      // An empty tensor has an address, so that its view is not "absent".
      bytes_(std::max<size_t>(1, static_cast<size_t>(shape.count()) * SizeOf(dtype))),
      shape_(shape),
      dtype_(dtype),
      device_(allocator.device()) {
  data_ = allocator.Allocate(bytes_);
}

Tensor::~Tensor() {
  if (data_ != nullptr) allocator_->Free(data_, bytes_);
}

Tensor::Tensor(Tensor&& other) noexcept { *this = std::move(other); }

Tensor& Tensor::operator=(Tensor&& other) noexcept {
  std::swap(allocator_, other.allocator_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(shape_, other.shape_);
  std::swap(dtype_, other.dtype_);
  std::swap(device_, other.device_);
  return *this;
}

}  // namespace crema
