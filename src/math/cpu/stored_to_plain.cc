#include "math/stored_to_plain.h"

#include <algorithm>

#include "core/bfloat16.h"
#include "core/error.h"
#include "math/blocked_copy.h"

namespace crema {

void StoredToPlain(int threads, const Shape& shape, MemoryFormat format, const void* x,
                   Int8Scale scale, float* y) {
  const auto* floats = static_cast<const float*>(x);
  if (format == MemoryFormat{}) {
    std::copy_n(floats, shape.count(), y);
    return;
  }
  const int64_t batch = shape[0], channels = shape[1], pixels = shape.count(2);
  if (format.type == DType::kU8) return Int8ToPlain(threads, batch, channels, pixels, x, scale, y);
  const auto* halves = static_cast<const BFloat16*>(x);
  const bool blocked = format.layout == Layout::kBlocked;
  CREMA_CHECK(format.type == DType::kBF16 || (blocked && !format.type));
  if (!blocked) return ChannelsLastToPlain(threads, batch, channels, pixels, halves, y);
  if (format.type) return BlockedToPlain(threads, batch, channels, pixels, halves, y);
  BlockedToPlain(threads, batch, channels, pixels, floats, y);
}

}  // namespace crema
