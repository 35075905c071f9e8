// Filters as cuDNN takes them for blobs in channels last.
#pragma once

#if __has_include(<cudnn.h>)
#include "math/cuda/cudnn_conv.h"

namespace crema {

// Filters lie as K x C x R x S in files and gradients (K output channels, C input channels of a
// group, R x S or any other space), and as K x R x S x C for a graph of channels last.
struct FilterTranspose {
  explicit FilterTranspose(const CudnnConvSpec& spec);

  // Both are the same memory.
  bool IsCopy() const { return channels == 1 || space == 1; }
  int64_t Bytes() const;
  // from K x C x R x S to K x R x S x C. Queued; the places may not overlap.
  void ToChannelsLast(const CudaQueue& queue, const void* from, void* to) const;
  // sum += from: K x C x R x S from K x R x S x C. Queued.
  void AddFromChannelsLast(const CudaQueue& queue, const void* from, void* sum) const;

  DType dtype;
  int64_t outputs, channels, space;
};

}  // namespace crema
#endif
