// In a file of its own, so that no caller sees into the replaced operators.
#include "fuzz/heap_peak.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<int64_t> g_live{0};
std::atomic<int64_t> g_peak{0};
}  // namespace

#ifndef CREMA_SANITIZED

void* operator new(std::size_t size) {
  void* pointer = std::malloc(size == 0 ? 1 : size);
  if (pointer == nullptr) throw std::bad_alloc();
  const int64_t live = g_live += static_cast<int64_t>(malloc_usable_size(pointer));
  int64_t peak = g_peak;
  while (peak < live && !g_peak.compare_exchange_weak(peak, live)) {
  }
  return pointer;
}

void operator delete(void* pointer) noexcept {
  if (pointer != nullptr) g_live -= static_cast<int64_t>(malloc_usable_size(pointer));
  std::free(pointer);
}

void operator delete(void* pointer, std::size_t) noexcept { ::operator delete(pointer); }

#endif

namespace crema::test {

int64_t StartHeapPeak() {
  g_peak = g_live.load();
  return g_live;
}

int64_t HeapPeak() { return g_peak; }

}  // namespace crema::test
