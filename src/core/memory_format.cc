#include "core/memory_format.h"

namespace crema {

std::string_view ToString(MemoryFormat format) {
  if (format == MemoryFormat::kPlain) return "NCHW";
  if (format == MemoryFormat::kPlainBF16) return "NCHW bf16";
  if (format == MemoryFormat::kPlainF16) return "NCHW f16";
  if (format == MemoryFormat::kBlockedBF16) return "nChw16c bf16";
  if (format == MemoryFormat::kInt8) return "nHWc int8";
  if (format == MemoryFormat::kChannelsLast) return "NHWC";
  if (format == MemoryFormat::kChannelsLastBF16) return "NHWC bf16";
  if (format == MemoryFormat::kChannelsLastF16) return "NHWC f16";
  return ChannelBlock() == 16 ? "nChw16c" : "nChw8c";
}

bool IsBlocked(MemoryFormat format) {
  return format == MemoryFormat::kBlocked || format == MemoryFormat::kBlockedBF16;
}

bool IsChannelsLast(MemoryFormat format) { return RowMajor(format) != format; }

MemoryFormat RowMajor(MemoryFormat format) {
  switch (format) {
    case MemoryFormat::kChannelsLast:
      return MemoryFormat::kPlain;
    case MemoryFormat::kChannelsLastBF16:
      return MemoryFormat::kPlainBF16;
    case MemoryFormat::kChannelsLastF16:
      return MemoryFormat::kPlainF16;
    default:
      return format;
  }
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
