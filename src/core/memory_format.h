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
  // As kPlain, each element rounded to bfloat16 or half precision; gradients too. On GPUs.
  kPlainBF16,
  kPlainF16,
  // N x H x W x C, a byte each: whole numbers, signed or not, times a scale. Both are those of the
  // layers that write and read the blob (LayerParameter::int8). It has no gradient.
  kInt8,
  // N x H x W x C: axis 1 is the fastest, behind any number of axes of space (without these it is
  // kPlain); and the same with each element rounded, gradients too. On GPUs.
  kChannelsLast,
  kChannelsLastBF16,
  kChannelsLastF16,
};

// "NCHW", "nChw16c", "nChw8c", "nChw16c bf16", "NCHW bf16", "NCHW f16", "nHWc int8", "NHWC",
// "NHWC bf16", "NHWC f16"
std::string_view ToString(MemoryFormat format);

// For blobs of four axes only.
bool IsBlocked(MemoryFormat format);

// One of the three of GPUs; not kInt8.
bool IsChannelsLast(MemoryFormat format);
// The row-major format of the same elements; formats that are not channels last stay.
MemoryFormat RowMajor(MemoryFormat format);

// Channels that one vector register of this processor holds in single precision: 16 with AVX-512, 8
// with AVX2, 0 without either: nothing is blocked then.
int64_t ChannelBlock();

}  // namespace crema
