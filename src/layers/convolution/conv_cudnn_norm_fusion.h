// Norm fusion (graph/norm_fusion.h) of an implementation "cudnn" by our kernels, for passes in
// which cuDNN does not do it: a training session may change to sizes that cuDNN has no engine for.
#pragma once

#if __has_include(<cudnn.h>)
#include <cstddef>

#include "core/dtype.h"
#include "layers/convolution/conv_cudnn.h"
#include "math/cuda/cuda_queue.h"
#include "math/cuda/cudnn_conv.h"
#include "math/group_stats.h"

namespace crema {

CudnnNormFusionPasses AskNormFusionPasses(const CudnnConvLayer& layer, bool fused,
                                          CudnnSupportCache* answers, int gpu);

// Factors of the channels of an input, one row each, or their gradient. f32 except for the last two
// rows.
class FactorRows {
 public:
  FactorRows(const void* rows, int64_t channels)
      : rows_(static_cast<const float*>(rows)), channels_(channels) {}
  const float* operator[](int64_t row) const { return rows_ + row * channels_; }

 private:
  const float* rows_;
  int64_t channels_;
};
CudnnConvMemory::Norm NormMemory(const void* x, const FactorRows& factors, float* gradient,
                                 int64_t channels);

// Returns the bytes of scratch that the functions below take. The groups of a layout are channels;
// blobs are f32, f16 or bf16 in channels last.
size_t FusedSumsScratch(const GroupLayout& channels);

// y = relu(x * factor + offset), the input that the convolution reads.
void NormalizeInput(const CudaQueue& queue, DType dtype, const GroupLayout& channels, const void* x,
                    const FactorRows& factors, void* y);
// Writes the two rows of SumsRow.
void SumOutput(const CudaQueue& queue, DType dtype, const GroupLayout& channels, const void* y,
               void* scratch, float* sums);
// Masks d, the gradient of the normalised input, by the ReLU in place, and writes its sums to the
// rows of FactorsGradientRow.
void MaskNormGradient(const CudaQueue& queue, DType dtype, const GroupLayout& channels,
                      const CudnnConvMemory::Norm& norm, void* d, void* scratch);

}  // namespace crema
#endif
