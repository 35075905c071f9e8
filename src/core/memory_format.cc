#include "core/memory_format.h"

namespace crema {

std::string_view ToString(MemoryFormat format) {
  if (format == MemoryFormat::kPlain) return "NCHW";
  if (format == MemoryFormat::kBlockedBF16) return "nChw16c bf16";
  if (format == MemoryFormat::kInt8) return "nHWc int8";
  return ChannelBlock() == 16 ? "nChw16c" : "nChw8c";
}

int64_t ChannelBlock() {
#if defined(__x86_64__) && defined(__GNUC__)
  static const int64_t block =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") ? 16
      : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")       ? 8
                                                                              : 0;
  return block;
#else
  return 0;
#endif
}

}  // namespace crema
