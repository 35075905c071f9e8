// Filters in the layout that cuDNN takes for channels-last blobs.
#pragma once

#if __has_include(<cudnn.h>)
#include "math/cuda/cudnn_conv.h"

namespace crema {

// Transposes filters between K x C x R x S, the layout of files and gradients (K output channels, C
// input channels of a group, R x S or other spatial axes), and K x R x S x C, the layout of a
// channels-last graph.
struct FilterTranspose {
  explicit FilterTranspose(const CudnnConvSpec& spec);

  // Returns true if both layouts are the same in memory.
  bool IsCopy() const { return channels == 1 || space == 1; }
  int64_t Bytes() const;
  // Converts K x C x R x S to K x R x S x C. Queued; `from` and `to` must not overlap.
  void ToChannelsLast(const CudaQueue& queue, const void* from, void* to) const;
  // sum += from, with `sum` as K x C x R x S and `from` as K x R x S x C. Queued.
  void AddFromChannelsLast(const CudaQueue& queue, const void* from, void* sum) const;

  DType dtype;
  int64_t outputs, channels, space;
};

}  // namespace crema
#endif
