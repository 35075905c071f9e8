// Replaces malloc and related functions by functions that count and call glibc's, which glibc
// documents as allowed. `free` stays glibc's.
#include "profile/heap_counter.h"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#if defined(__GLIBC__) && !defined(CREMA_SANITIZED)

namespace {

struct Counts {
  std::atomic<int64_t> allocations{0};
  std::atomic<int64_t> bytes{0};
};

// Initialized statically: malloc is called before main.
Counts& HeapCounts() {
  static constinit Counts counts;
  return counts;
}

void Count(size_t bytes) {
  HeapCounts().allocations.fetch_add(1, std::memory_order_relaxed);
  HeapCounts().bytes.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
}

}  // namespace

extern "C" {

// NOLINTBEGIN(readability-identifier-naming): names of glibc
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* pointer, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) {
  Count(size);
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  Count(count * size);
  return __libc_calloc(count, size);
}
void* realloc(void* pointer, size_t size) {
  Count(size);
  return __libc_realloc(pointer, size);
}
void* memalign(size_t alignment, size_t size) {
  Count(size);
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  Count(size);
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** pointer, size_t alignment, size_t size) {
  Count(size);
  if (alignment % sizeof(void*) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0) {
    return EINVAL;
  }
  void* memory = __libc_memalign(alignment, size);
  if (memory == nullptr) return ENOMEM;
  *pointer = memory;
  return 0;
}
// NOLINTEND(readability-identifier-naming)
}

namespace crema::tools {

std::function<HeapUse()> HeapCounter() {
  return [] {
    return HeapUse{.allocations = HeapCounts().allocations.load(std::memory_order_relaxed),
                   .bytes = HeapCounts().bytes.load(std::memory_order_relaxed)};
  };
}

}  // namespace crema::tools

#else

namespace crema::tools {

std::function<HeapUse()> HeapCounter() { return {}; }

}  // namespace crema::tools

#endif
