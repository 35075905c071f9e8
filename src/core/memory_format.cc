#include "core/memory_format.h"

#include "core/strings.h"

namespace crema {

std::string ToString(MemoryFormat format) {
  if (format.type == DType::kU8) return "nHWc int8";
  const char* layout = format.layout == Layout::kNCHW   ? "NCHW"
                       : format.layout == Layout::kNHWC ? "NHWC"
                       : ChannelBlock() == 16           ? "nChw16c"
                                                        : "nChw8c";
  return format.type ? StrCat(layout, " ", ToString(*format.type)) : layout;
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
