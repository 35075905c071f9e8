// Memory of a device, behind one interface so that tests can refuse it.
#pragma once

#include <cstddef>

#include "core/device.h"

namespace crema {

// Thread safety: any number of threads.
class Allocator {
 public:
  virtual ~Allocator() = default;
  virtual Device device() const = 0;
  // Zeroed memory, aligned to 64 bytes or more. Throws kOutOfMemory, naming the size.
  virtual void* Allocate(size_t bytes) = 0;
  virtual void Free(void* pointer, size_t bytes) noexcept = 0;
};

// The heap of the CPU. Stateless; one object serves the whole process.
Allocator& CpuAllocator();

}  // namespace crema
