#include "support/guarded_tensor.h"

#include <algorithm>
#include <cstdint>

#include "core/blob_types.h"

namespace crema::test {
namespace {

constexpr std::byte kGuard{0xA5};
constexpr std::byte kUnwritten{0xFF};
constexpr size_t kAlignment = 64;
constexpr size_t kGuardBytes = 2 * kAlignment;

}  // namespace

GuardedBuffer::GuardedBuffer(size_t bytes)
    : storage_(bytes + 2 * kGuardBytes + kAlignment, kGuard), size_(bytes) {
  const size_t odd = reinterpret_cast<uintptr_t>(storage_.data()) % kAlignment;
  start_ = kGuardBytes + (kAlignment - odd) % kAlignment;
  std::ranges::fill(this->bytes(), kUnwritten);
}

bool GuardedBuffer::Intact() const {
  const auto is_guard = [](std::byte b) { return b == kGuard; };
  const auto begin = storage_.begin() + static_cast<std::ptrdiff_t>(start_);
  const auto end = begin + static_cast<std::ptrdiff_t>(size_);
  return std::all_of(storage_.begin(), begin, is_guard) &&
         std::all_of(end, storage_.end(), is_guard);
}

GuardedTensor::GuardedTensor(const Shape& shape, DType dtype)
    : buffer_(static_cast<size_t>(shape.count()) * SizeOf(dtype)),
      view_(buffer_.bytes().data(), shape, dtype) {}

void GuardedTensor::Set(std::span<const double> values) {
  CREMA_CHECK(values.size() == static_cast<size_t>(view_.count()));
  DispatchBlob(view_.dtype(), [&]<typename T>(T) {
    std::ranges::transform(values, view_.data<T>(), [](double v) { return static_cast<T>(v); });
  });
}

std::vector<double> GuardedTensor::Values() const {
  return DispatchBlob(view_.dtype(), [&]<typename T>(T) {
    const std::span<T> values = view_.span<T>();
    return std::vector<double>(values.begin(), values.end());
  });
}

void GuardedTensor::Shrink(const Shape& shape) {
  CREMA_CHECK(shape.count() <= view_.count());
  view_ = TensorView(view_.raw(), shape, view_.dtype());
}

std::vector<std::byte> GuardedTensor::Bytes() const {
  const auto* data = static_cast<const std::byte*>(view_.raw());
  return {data, data + view_.bytes()};
}

bool GuardedTensor::HasUnwritten() const {
  const std::vector<std::byte> bytes = Bytes();
  const auto size = static_cast<std::ptrdiff_t>(SizeOf(view_.dtype()));
  for (auto at = bytes.begin(); at != bytes.end(); at += size) {
    if (std::all_of(at, at + size, [](std::byte b) { return b == kUnwritten; })) return true;
  }
  return false;
}

}  // namespace crema::test
