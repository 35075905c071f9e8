// Convolution as a matrix product on the GPU: converts the patches of images to columns, and back.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "math/conv_window.h"
#include "math/cuda/cuda_queue.h"

namespace crema {

// As Im2col and Col2im of math/im2col.h, for f32, f16 or bf16. `planes` are the channels of all
// images; they are contiguous. Queued; do not wait.
void CudaIm2col(const CudaQueue& queue, DType dtype, const ConvWindow& window, int64_t planes,
                const void* images, void* columns);
void CudaCol2im(const CudaQueue& queue, DType dtype, const ConvWindow& window, int64_t planes,
                const void* columns, void* images);

}  // namespace crema
