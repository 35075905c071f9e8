// Interface of device memory allocation. Tests replace it to inject failures.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

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

// An allocator with a limit. Thread safety: any number of threads.
class LimitedAllocator final : public Allocator {
 public:
  // Allocates from `inner`, which must outlive this, at most `limit` bytes at a time.
  LimitedAllocator(Allocator& inner, int64_t limit) : inner_(inner), limit_(limit) {}

  Device device() const override { return inner_.device(); }
  // Also throws kOutOfMemory above the limit.
  void* Allocate(size_t bytes) override;
  void Free(void* pointer, size_t bytes) noexcept override;
  int64_t free() const { return limit_ - used_; }

 private:
  Allocator& inner_;
  const int64_t limit_;
  std::atomic<int64_t> used_ = 0;
};

}  // namespace crema
