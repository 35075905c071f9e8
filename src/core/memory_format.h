// Memory layouts and storage types of a blob N x C x H x W.
#pragma once

#include <cstdint>
#include <string_view>

namespace crema {

enum class MemoryFormat : uint8_t {
  kPlain,    // row-major: the last axis is contiguous
  kBlocked,  // N x ceil(C / b) x H x W x b with b = ChannelBlock(); channels from C on are zero
  // Like kBlocked, stored as bfloat16, including the gradients.
  kBlockedBF16,
  // Like kPlain, stored as bfloat16 or half precision, including the gradients. GPUs only.
  kPlainBF16,
  kPlainF16,
  // N x H x W x C, one byte each: integers, signed or unsigned, times a scale. The layers that
  // write and read the blob determine both (LayerParameter::int8). Has no gradient.
  kInt8,
  // N x H x W x C: axis 1 is contiguous, after any number of spatial axes (without any, equal to
  // kPlain). Also stored as bfloat16 or half precision, including the gradients. GPUs only.
  kChannelsLast,
  kChannelsLastBF16,
  kChannelsLastF16,
};

// "NCHW", "nChw16c", "nChw8c", "nChw16c bf16", "NCHW bf16", "NCHW f16", "nHWc int8", "NHWC",
// "NHWC bf16", "NHWC f16"
std::string_view ToString(MemoryFormat format);

// Only for blobs of four axes.
bool IsBlocked(MemoryFormat format);

// Returns true for the three GPU formats; not for kInt8.
bool IsChannelsLast(MemoryFormat format);
// Returns the row-major format with the same element type; formats that are not channels last are
// returned unchanged.
MemoryFormat RowMajor(MemoryFormat format);

// Channels per vector register in single precision: 16 with AVX-512, 8 with AVX2, else 0: nothing
// is blocked then.
int64_t ChannelBlock();

}  // namespace crema
