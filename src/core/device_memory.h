// Bytes in the memory of a context, on any device, and copies between it and the host.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/bfloat16.h"
#include "core/exec_context.h"
#include "core/tensor.h"

namespace crema {

// Returns at least `bytes` bytes in memory of the context. A shape has at most 2^31-1 elements and
// an arena may have more bytes, so its rows are kibibytes.
inline Tensor MakeByteTensor(size_t bytes, const ExecContext& context) {
  const auto rows = static_cast<int64_t>((bytes + 1023) / 1024);
  return Tensor(Shape{rows, 1024 / 8}, DType::kF64, context.allocator());
}

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
