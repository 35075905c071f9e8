#include "core/bfloat16.h"

#include "core/memory_format.h"

namespace crema {

bool HasBFloat16() {
#if defined(__x86_64__) && defined(__GNUC__)
  static const bool has = ChannelBlock() == 16 && __builtin_cpu_supports("avx512bf16");
  return has;
#else
  return false;
#endif
}

}  // namespace crema
