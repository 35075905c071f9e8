// Convolution of 3 x 3 filters with stride 1 in single precision by Winograd's minimal filtering
// F(4 x 4, 3 x 3): a tile of 6 x 6 inputs gives 4 x 4 outputs by 36 products a channel, where the
// sum takes 144. Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016.
//
// Images have the blocked layout (image, block, height, width, 16): a vector is 16 channels of a
// pixel. The padding channels of the last block are 0 in inputs and outputs. Filters are (output,
// input, 3, 3).
//
// Errors are some ten times those of the plain sum, about 1e-6 of the sum of absolute products.
// Results do not depend on the number of threads. Scratch for some number of threads suffices for
// fewer threads. Thread safety: any, with scratch of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "math/bias_activation.h"
#include "math/packed_conv.h"

namespace crema {

// Returns true if this processor has AVX-512; all functions that compute require it.
bool HaveBlockedWinograd();

// 3 x 3, stride 1, dilation 1, padding up to 2; groups only of whole channel blocks.
bool IsBlockedWinogradShape(const PackedConvShape& shape);

// y from x, the gradient of x from that of y, or the gradient of the filters.
enum class WinogradPass { kForward, kDataGradient, kWeightGradient };

// Returns the expected time as a fraction of that of oneDNN's convolution in the same layout.
// `weights_ready`: the filters are already transformed; matters for the first two passes only.
// Requires IsBlockedWinogradShape, images and HaveBlockedWinograd.
double BlockedWinogradShare(const PackedConvShape& shape, WinogradPass pass, int64_t batch,
                            int threads, bool weights_ready);
// Returns true if that is sufficiently below 1. False if the shape or the processor is not
// supported.
bool BlockedWinogradPays(const PackedConvShape& shape, WinogradPass pass, int64_t batch,
                         int threads, bool weights_ready);

// Transforms the filters for kForward, or for kDataGradient (transposed and rotated by 180
// degrees). With `factor`, which may be null, the filters of output channel k are multiplied by
// factor[k].
size_t BlockedWinogradWeightBytes(const PackedConvShape& shape, WinogradPass pass);
void BlockedWinogradWeights(const PackedConvShape& shape, WinogradPass pass, int threads,
                            const float* weight, const float* factor, float* transformed);

// The epilogue of a convolution: y = relu(sum + bias + residual).
struct WinogradEpilogue {
  const float* bias = nullptr;      // null, or one an output channel
  const float* residual = nullptr;  // null, or laid out as a dense y; may be y itself
  FusedRelu relu;
  int64_t y_stride = 0;  // elements from one image of y to the next; 0: dense
};

// Overwrites y. `transformed` are the filters for kForward.
size_t BlockedWinogradForwardScratch(const PackedConvShape& shape, int64_t batch, int threads);
void BlockedWinogradForward(const PackedConvShape& shape, int64_t batch, int threads,
                            const float* x, const float* transformed,
                            const WinogradEpilogue& epilogue, float* y,
                            std::span<std::byte> scratch);

// Overwrites dx. `transformed` are the filters for kDataGradient.
size_t BlockedWinogradDataGradientScratch(const PackedConvShape& shape, int64_t batch, int threads);
void BlockedWinogradDataGradient(const PackedConvShape& shape, int64_t batch, int threads,
                                 const float* dy, const float* transformed, float* dx,
                                 std::span<std::byte> scratch);

// Adds to dweight.
size_t BlockedWinogradWeightGradientScratch(const PackedConvShape& shape, int64_t batch,
                                            int threads);
void BlockedWinogradWeightGradient(const PackedConvShape& shape, int64_t batch, int threads,
                                   const float* x, const float* dy, float* dweight,
                                   std::span<std::byte> scratch);

}  // namespace crema
