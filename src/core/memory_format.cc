#include "core/memory_format.h"

#include "core/processor.h"
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

int64_t ChannelBlock() { return Processor().avx512 ? 16 : Processor().avx2 ? 8 : 0; }

}  // namespace crema
