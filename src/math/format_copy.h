// Conversion between the memory formats of blobs N x C x H x W (core/memory_format.h), by oneDNN.
// Only in builds with oneDNN (CREMA_HAVE_ONEDNN).
#pragma once

#include <memory>

#include "core/memory_format.h"
#include "core/shape.h"

namespace crema {

// Thread safety: one thread at a time, on at most `threads` threads.
class FormatCopy {
 public:
  // The stored types are f32 or bfloat16, which is rounded to nearest. Channels that fill blocks
  // up become zeros. Throws kUnsupported if oneDNN has no conversion.
  FormatCopy(int threads, const Shape& shape, MemoryFormat from, MemoryFormat to);
  ~FormatCopy();
  FormatCopy(const FormatCopy&) = delete;
  FormatCopy& operator=(const FormatCopy&) = delete;

  void Run(const void* x, void* y);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace crema
