#include "core/limited_allocator.h"

#include "core/error.h"
#include "core/strings.h"

namespace crema {

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
