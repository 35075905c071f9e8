// What an implementation "cudnn" does for the normalisations next to its convolution
// (graph/norm_fusion.h) where cuDNN does not: in training a session may turn to extents that cuDNN
// has no engines for.
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

// Factors of the channels of an input, and their gradient; f32 but for the last two rows.
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

// In bytes, of what the functions below are given. Channels are the groups of a layout, blobs are
// f32, f16 or bf16 in channels last.
size_t FusedSumsScratch(const GroupLayout& channels);

// y = relu(x * factor + offset), as a convolution reads it.
void NormalizeInput(const CudaQueue& queue, DType dtype, const GroupLayout& channels, const void* x,
                    const FactorRows& factors, void* y);
// Two rows, SumsRow.
void SumOutput(const CudaQueue& queue, DType dtype, const GroupLayout& channels, const void* y,
               void* scratch, float* sums);
// Takes d, the gradient of what was normalised, through the ReLU, in place, and sums it:
// FactorsGradientRow.
void GradientBehindNorm(const CudaQueue& queue, DType dtype, const GroupLayout& channels,
                        const CudnnConvMemory::Norm& norm, void* d, void* scratch);

}  // namespace crema
#endif
