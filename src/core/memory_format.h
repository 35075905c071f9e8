// Layout and stored type of a blob N x C x H x W.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/dtype.h"

namespace crema {

enum class Layout : uint8_t {
  kNCHW,  // row-major: the last axis is contiguous
  // N x ceil(C / b) x H x W x b with b = ChannelBlock(); channels from C on are zero. Only for
  // blobs of four axes, on CPUs.
  kBlocked,
  // N x H x W x C: axis 1 is contiguous, after any number of spatial axes (without any, equal to
  // kNCHW).
  kNHWC,
};

// The default is plain: row-major, in the blob's own type.
struct MemoryFormat {
  Layout layout = Layout::kNCHW;
  // Type of the elements in memory, if not the blob's own. The gradients have it too.
  //   kBF16: blocked or kNHWC, or any layout of GPUs
  //   kF16: GPUs only
  //   kU8: integers, signed or unsigned, times a scale; kNHWC on CPUs only. The layers that write
  //     and read the blob determine both (LayerParameter::int8). Has no gradient.
  std::optional<DType> type = {};

  friend bool operator==(const MemoryFormat&, const MemoryFormat&) = default;
};

// "NCHW", "nChw16c", "nChw8c", "nChw16c bf16", "NCHW bf16", "NCHW f16", "nHWc int8", "NHWC",
// "NHWC bf16", "NHWC f16"
std::string ToString(MemoryFormat format);

// Channels per vector register in single precision: 16 with AVX-512, 8 with AVX2, else 0: nothing
// is blocked then.
int64_t ChannelBlock();

}  // namespace crema
