#include "support/guarded_tensor.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>

#include "core/bfloat16.h"
#include "core/blob_types.h"
#include "support/half.h"

namespace crema::test {
namespace {

constexpr std::byte kGuard{0xA5};
constexpr std::byte kUnwritten{0xFF};
constexpr std::byte kZero{0};
constexpr std::byte kSign{0x80};
constexpr size_t kAlignment = 64;
constexpr size_t kGuardBytes = 2 * kAlignment;

template <typename Body>
void Dispatch(DType dtype, Body&& body) {
  if (dtype == DType::kBF16) return body(BFloat16{});
  if (dtype == DType::kF16) return body(Half{});
  DispatchBlob(dtype, body);
}

}  // namespace

GuardedBuffer::GuardedBuffer(size_t bytes, Allocator& memory)
    : storage_(Shape{static_cast<int64_t>(bytes + 2 * kGuardBytes + kAlignment)}, DType::kU8,
               memory),
      size_(bytes) {
  const size_t odd = reinterpret_cast<uintptr_t>(data()) % kAlignment;
  start_ = kGuardBytes + (kAlignment - odd) % kAlignment;
  std::fill_n(data(), storage_.view().bytes(), kGuard);
  std::ranges::fill(this->bytes(), kUnwritten);
}

bool GuardedBuffer::Intact() const {
  const auto is_guard = [](std::byte b) { return b == kGuard; };
  const auto* first = static_cast<const std::byte*>(storage_.view().raw());
  const std::byte* begin = first + start_;
  return std::all_of(first, begin, is_guard) &&
         std::all_of(begin + size_, first + storage_.view().bytes(), is_guard);
}

GuardedTensor::GuardedTensor(const BlobSpec& spec, Allocator& memory)
    : format_(spec.format),
      stored_bytes_(static_cast<size_t>(StoredBytes(spec))),
      buffer_(stored_bytes_, memory),
      view_(buffer_.bytes().data(), spec.shape, StoredType(spec)) {}

std::vector<int64_t> GuardedTensor::Places() const {
  std::vector<int64_t> places(static_cast<size_t>(view_.count()));
  std::iota(places.begin(), places.end(), 0);
  const Shape& shape = view_.shape();
  if (format_.layout == Layout::kNHWC && shape.axes() > 2) {
    const int64_t pixels = shape.count(2);
    for (int64_t& place : places) {
      const int64_t row = place / pixels;  // of an image and a channel
      place = (row / shape[1] * pixels + place % pixels) * shape[1] + row % shape[1];
    }
    return places;
  }
  if (format_.layout != Layout::kBlocked) return places;
  const int64_t block = ChannelBlock();
  const int64_t blocks = (shape[1] + block - 1) / block;
  const int64_t pixels = shape.count(2);
  for (int64_t& place : places) {
    const int64_t pixel = place % pixels;
    const int64_t channel = place / pixels % shape[1];
    const int64_t image = place / pixels / shape[1];
    place = ((image * blocks + channel / block) * pixels + pixel) * block + channel % block;
  }
  return places;
}

void GuardedTensor::Set(std::span<const double> values) {
  CREMA_CHECK(values.size() == static_cast<size_t>(view_.count()));
  if (format_.layout == Layout::kBlocked) std::ranges::fill(buffer_.bytes(), std::byte{0});
  const std::vector<int64_t> places = Places();
  Dispatch(view_.dtype(), [&]<typename T>(T) {
    T* data = view_.data<T>();
    for (size_t i = 0; i < values.size(); ++i)
      data[places[i]] = T(static_cast<Compute<T>>(values[i]));
  });
}

std::vector<double> GuardedTensor::Values() const {
  std::vector<double> values;
  Dispatch(view_.dtype(), [&]<typename T>(T) {
    const T* data = view_.data<T>();
    for (int64_t place : Places()) {
      values.push_back(static_cast<double>(static_cast<Compute<T>>(data[place])));
    }
  });
  return values;
}

bool GuardedTensor::FillIsZero() const {
  if (format_.layout != Layout::kBlocked || stored_bytes_ == 0) return true;
  std::vector<std::byte> fill = Bytes();
  const size_t size = SizeOf(view_.dtype());
  for (int64_t place : Places()) std::fill_n(&fill[static_cast<size_t>(place) * size], size, kZero);
  // -0 is 0 too: its sign is the highest bit of the last byte.
  for (size_t at = size - 1; at < fill.size(); at += size) fill[at] &= ~kSign;
  return std::ranges::all_of(fill, [](std::byte b) { return b == kZero; });
}

void GuardedTensor::Shrink(const Shape& shape) {
  CREMA_CHECK(shape.count() <= view_.count() && format_.layout != Layout::kBlocked);
  stored_bytes_ = static_cast<size_t>(shape.count()) * SizeOf(view_.dtype());
  view_ = TensorView(view_.raw(), shape, view_.dtype());
}

std::vector<std::byte> GuardedTensor::Bytes() const {
  const auto* data = static_cast<const std::byte*>(view_.raw());
  return {data, data + stored_bytes_};
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
