// Moving bytes between the host and the memory of a context, whatever device that is of.
#pragma once

#include <cstring>

#include "core/bfloat16.h"
#include "core/exec_context.h"
#include "core/tensor.h"

namespace crema {

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
