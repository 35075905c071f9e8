// Products of a convolution on the GPU, several images at a time. Convolution and, in the reverse
// direction, Deconvolution consist of them. conv_matmul.h is the counterpart on the CPU.
#pragma once

#include <cstddef>
#include <span>

#include "layers/convolution/conv_geometry.h"
#include "math/bias_activation.h"
#include "math/cuda/cuda_queue.h"

namespace crema {

// Scratch memory of one pass, and the number of images that fit into it.
struct CudaConvScratch {
  // `masked` is the number of elements of one image's masked gradient; 0 without a ReLU. Only
  // backward passes have `parts`.
  CudaConvScratch(const ConvGeometry& g, DType dtype, int64_t masked, bool backward);
  size_t Bytes() const;
  void Take(std::span<std::byte> scratch);

  DType dtype;
  int64_t images;  // processed at a time
  // Elements of each for one image; 0 means not needed.
  int64_t column_count, part_count, masked_count;
  void* columns = nullptr;
  void* parts = nullptr;  // weight gradients, one for each image
  void* masked = nullptr;
};

struct CudaConv {
  const CudaQueue& queue;
  const ConvGeometry& g;
  DType dtype;

  // Each function takes `images` consecutive images, at most scratch.images.
  // y = products of the weights and the patches of x.
  void Product(const CudaConvScratch& scratch, int64_t images, const void* x, const void* weight,
               void* y) const;
  // dx = gradient of x.
  void Transposed(const CudaConvScratch& scratch, int64_t images, const void* dy,
                  const void* weight, void* dx) const;
  // dweight += gradient of the weights.
  void AddWeightGradient(const CudaConvScratch& scratch, int64_t images, const void* x,
                         const void* dy, void* dweight) const;
};

// Returns true if each group has one input channel. Its matrices would be small, so it has its own
// kernels, the three below.
inline bool IsCudaDepthwise(const ConvGeometry& g) {
  return g.groups > 1 && g.in_channels == g.groups;
}
void CudaDepthwiseProduct(const CudaConv& conv, int64_t images, const void* x, const void* weight,
                          void* y);
void CudaDepthwiseTransposed(const CudaConv& conv, int64_t images, const void* dy,
                             const void* weight, void* dx);
void CudaAddDepthwiseGradient(const CudaConv& conv, int64_t images, const void* x, const void* dy,
                              void* dweight);

// Sizes of `images` x `channels` planes of `size` elements.
struct CudaPlanes {
  int64_t images, channels, size;
  int64_t count() const { return images * channels * size; }
};
// y = relu(y + bias[channel] + sum), with `sum` of the layout of y. A null `bias` or `sum` is left
// out.
void CudaAddBiasRelu(const CudaQueue& queue, DType dtype, const CudaPlanes& planes,
                     const void* bias, const void* sum, FusedRelu relu, void* y);
// Returns dy of output `output`, `count` elements from `first` on. If there is a ReLU, the result
// is masked by it and stored in scratch.masked.
const void* CudaReluGradient(const CudaQueue& queue, const CudaConvScratch& scratch, FusedRelu relu,
                             const BackwardArgs& args, size_t output, int64_t first, int64_t count);
// masked = dy where y > 0, slope * dy elsewhere.
void CudaMaskByOutput(const CudaQueue& queue, DType dtype, int64_t count, float slope,
                      const void* y, const void* dy, void* masked);
// dbias[channel] += the sum of the planes of the channel in dy.
void CudaAddBiasGradient(const CudaQueue& queue, DType dtype, const CudaPlanes& planes,
                         const void* dy, void* dbias);

// Returns the address of an element.
inline const void* ElementAt(const void* base, DType dtype, int64_t index) {
  return static_cast<const char*>(base) + index * static_cast<int64_t>(SizeOf(dtype));
}
inline void* ElementAt(void* base, DType dtype, int64_t index) {
  return static_cast<char*>(base) + index * static_cast<int64_t>(SizeOf(dtype));
}

}  // namespace crema
