// Products of a convolution on the GPU, some images at a time: what Convolution and, the other way
// round, Deconvolution consist of. conv_matmul.h is the same for the CPU.
#pragma once

#include <cstddef>
#include <span>

#include "layers/convolution/conv_geometry.h"
#include "math/bias_activation.h"
#include "math/cuda/cuda_queue.h"

namespace crema {

// The memory that a pass works in, and how many images that allows at a time.
struct CudaConvScratch {
  // `masked`: elements of an image behind a ReLU, if any. Only backward passes have `weight_parts`.
  CudaConvScratch(const ConvGeometry& g, DType dtype, int64_t masked, bool backward);
  size_t Bytes() const;
  void Take(std::span<std::byte> scratch);

  DType dtype;
  int64_t images;  // at a time
  // Elements of each, for one image; 0: not needed.
  int64_t column_count, part_count, masked_count;
  void* columns = nullptr;
  void* parts = nullptr;  // gradients of weights
  void* masked = nullptr;
};

struct CudaConv {
  const CudaQueue& queue;
  const ConvGeometry& g;
  DType dtype;

  // Of `images` images one behind the other, at most as many as `scratch` has room for:
  // y = the products of weight and the patches of x
  void Product(const CudaConvScratch& scratch, int64_t images, const void* x, const void* weight,
               void* y) const;
  // dx = the gradient of x
  void Transposed(const CudaConvScratch& scratch, int64_t images, const void* dy,
                  const void* weight, void* dx) const;
  // dweight += the gradient of the weights
  void AddWeightGradient(const CudaConvScratch& scratch, int64_t images, const void* x,
                         const void* dy, void* dweight) const;
};

// One input channel a group, which makes poor matrices: kernels of their own.
inline bool IsCudaDepthwise(const ConvGeometry& g) {
  return g.groups > 1 && g.in_channels == g.groups;
}
void CudaDepthwiseProduct(const CudaConv& conv, int64_t images, const void* x, const void* weight,
                          void* y);
void CudaDepthwiseTransposed(const CudaConv& conv, int64_t images, const void* dy,
                             const void* weight, void* dx);
void CudaAddDepthwiseGradient(const CudaConv& conv, int64_t images, const void* x, const void* dy,
                              void* dweight);

// Of `images` x `channels` planes of `size` elements.
struct CudaPlanes {
  int64_t images, channels, size;
  int64_t count() const { return images * channels * size; }
};
// y = relu(y + bias[channel] + sum), `sum` being such planes too; both may be null.
void CudaAddBiasRelu(const CudaQueue& queue, DType dtype, const CudaPlanes& planes,
                     const void* bias, const void* sum, FusedRelu relu, void* y);
// dy of output `output`, `count` elements from `first` on, behind the ReLU if there is one: then in
// scratch.masked.
const void* CudaBehindRelu(const CudaQueue& queue, const CudaConvScratch& scratch, FusedRelu relu,
                           const BackwardArgs& args, size_t output, int64_t first, int64_t count);
// masked = dy where y > 0, slope * dy elsewhere.
void CudaMaskByOutput(const CudaQueue& queue, DType dtype, int64_t count, float slope,
                      const void* y, const void* dy, void* masked);
// dbias[channel] += the sum over its planes.
void CudaAddBiasGradient(const CudaQueue& queue, DType dtype, const CudaPlanes& planes,
                         const void* dy, void* dbias);

// The address of an element.
inline const void* ElementAt(const void* base, DType dtype, int64_t index) {
  return static_cast<const char*>(base) + index * static_cast<int64_t>(SizeOf(dtype));
}
inline void* ElementAt(void* base, DType dtype, int64_t index) {
  return static_cast<char*>(base) + index * static_cast<int64_t>(SizeOf(dtype));
}

}  // namespace crema
