// Bytes in the memory of a context, on any device, and copies between it and the host.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>

#include "core/bfloat16.h"
#include "core/exec_context.h"
#include "core/tensor.h"

namespace crema {

// Returns memory to its allocator; for unique_ptr.
struct MemoryReturn {
  void operator()(std::byte* data) const noexcept { allocator->Free(data, bytes); }
  Allocator* allocator = nullptr;
  size_t bytes = 0;
};

// Zeroed bytes in memory of a context: any number, while a Tensor has at most 2^31-1 elements. Can
// be moved, but not copied.
class ByteMemory {
 public:
  ByteMemory() = default;
  // Takes at least `bytes` bytes. Throws kOutOfMemory.
  ByteMemory(size_t bytes, const ExecContext& context)
      : bytes_((bytes + kUnit - 1) / kUnit * kUnit),
        data_(static_cast<std::byte*>(context.allocator().Allocate(std::max(kUnit, bytes_))),
              MemoryReturn{&context.allocator(), std::max(kUnit, bytes_)}) {}

  std::byte* data() const { return data_.get(); }  // null if made without arguments
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kUnit = 1024;
  size_t bytes_ = 0;
  std::unique_ptr<std::byte, MemoryReturn> data_;
};

// All in the order of the context's work; each returns when the host's memory may be used again.
inline void Upload(const ExecContext& context, void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  if (context.queue() != nullptr) return context.queue()->Upload(to, from, bytes);
  std::memcpy(to, from, bytes);
}
inline void Download(const ExecContext& context, void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  if (context.queue() != nullptr) return context.queue()->Download(to, from, bytes);
  std::memcpy(to, from, bytes);
}
inline void CopyWithin(const ExecContext& context, void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  if (context.queue() != nullptr) return context.queue()->Copy(to, from, bytes);
  std::memcpy(to, from, bytes);
}

// All elements of a view in the memory of the context become `value`.
void FillWith(const ExecContext& context, const TensorView& view, float value);

}  // namespace crema
