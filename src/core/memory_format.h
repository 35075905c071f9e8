// How the elements of a blob N x C x H x W lie in memory.
#pragma once

#include <cstdint>
#include <string_view>

namespace crema {

enum class MemoryFormat : uint8_t {
  kPlain,    // row-major: the last axis is the fastest
  kBlocked,  // N x ceil(C / b) x H x W x b with b = ChannelBlock(); channels from C on are zero
  // As kBlocked, each element rounded to bfloat16. Gradients of the blob too.
  kBlockedBF16,
  // N x H x W x C, a byte each: whole numbers, signed or not, times a scale. Both are those of the
  // layers that write and read the blob (LayerParameter::int8). It has no gradient.
  kInt8,
};

std::string_view ToString(MemoryFormat format);  // "NCHW", "nChw16c", "nChw8c", "nChw16c bf16",
                                                 // "nHWc int8"

// Channels that one vector register of this processor holds in single precision: 16 with AVX-512, 8
// with AVX2, 0 without either: nothing is blocked then.
int64_t ChannelBlock();

}  // namespace crema
