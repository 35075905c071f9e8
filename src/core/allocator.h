// Interface of device memory allocation. Tests replace it to inject failures.
#pragma once

#include <cstddef>

#include "core/device.h"

namespace crema {

// Thread safety: any number of threads.
class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual Device device() const = 0;
  // Returns zeroed memory, aligned to 64 bytes or more. Throws kOutOfMemory, naming the size.
  virtual void* Allocate(size_t bytes) = 0;
  virtual void Free(void* pointer, size_t bytes) noexcept = 0;
};

// Returns the allocator of host memory. Stateless, one per process.
Allocator& CpuAllocator();

}  // namespace crema
