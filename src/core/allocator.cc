#include "core/allocator.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "core/error.h"
#include "core/strings.h"

namespace crema {
namespace {

constexpr size_t kAlignment = 64;
// Weights of this size are streamed from memory, where small pages cost a third of the bandwidth
// (CaffeNet's inner products). Finding huge pages does not pay off for smaller ones.
constexpr size_t kHugeFrom = size_t{8} << 20;
constexpr size_t kHugePage = size_t{2} << 20;

void AskForHugePages(void* pointer, size_t bytes) {
#ifdef MADV_HUGEPAGE
  madvise(pointer, bytes, MADV_HUGEPAGE);  // a hint: ignore errors
#else
  static_cast<void>(pointer);
  static_cast<void>(bytes);
#endif
}

// Uses posix_memalign, since aligned_alloc requires multiples of the alignment.
void* AlignedMemory(size_t alignment, size_t bytes) {
  void* pointer = nullptr;
  return posix_memalign(&pointer, alignment, bytes) == 0 ? pointer : nullptr;
}

class HeapAllocator final : public Allocator {
 public:
  Device device() const override { return {}; }

  void* Allocate(size_t bytes) override {
    const size_t alignment = bytes < kHugeFrom ? kAlignment : kHugePage;
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    void* pointer = rounded < bytes ? nullptr : AlignedMemory(alignment, rounded);
    if (pointer == nullptr) {
      Fail(ErrorCode::kOutOfMemory, StrCat("out of memory: ", bytes >> 20, " MiB (", bytes,
                                           " bytes) could not be allocated"));
    }
    if (alignment == kHugePage) AskForHugePages(pointer, rounded);
    std::memset(pointer, 0, rounded);
    return pointer;
  }

  void Free(void* pointer, size_t) noexcept override { std::free(pointer); }
};

}  // namespace

Allocator& CpuAllocator() {
  static HeapAllocator allocator;  // has no state
  return allocator;
}

void* LimitedAllocator::Allocate(size_t bytes) {
  const auto wanted = static_cast<int64_t>(bytes);
  if (used_.fetch_add(wanted) + wanted > limit_) {
    used_ -= wanted;
    Fail(ErrorCode::kOutOfMemory,
         StrCat("cannot allocate ", bytes, " bytes on ", ToString(device()), ": ", free(), " of ",
                limit_, " allowed are free"));
  }
  try {
    return inner_.Allocate(bytes);
  } catch (...) {
    used_ -= wanted;
    throw;
  }
}

void LimitedAllocator::Free(void* pointer, size_t bytes) noexcept {
  inner_.Free(pointer, bytes);
  used_ -= static_cast<int64_t>(bytes);
}

}  // namespace crema
