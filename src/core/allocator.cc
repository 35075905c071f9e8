#include "core/allocator.h"

#include <cstdlib>
#include <cstring>

#include "core/error.h"
#include "core/strings.h"

namespace crema {
namespace {

constexpr size_t kAlignment = 64;

class HeapAllocator final : public Allocator {
 public:
  Device device() const override { return {}; }

  void* Allocate(size_t bytes) override {
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    void* pointer = rounded < bytes ? nullptr : std::aligned_alloc(kAlignment, rounded);
    if (pointer == nullptr) {
      Fail(ErrorCode::kOutOfMemory, StrCat("out of memory: ", bytes >> 20, " MiB (", bytes,
                                           " bytes) could not be allocated"));
    }
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

}  // namespace crema
