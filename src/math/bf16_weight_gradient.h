// The gradient of the weights of a convolution on bfloat16 blobs, by the processor's bfloat16
// units: vectors (AVX512-BF16) or tiles (AMX). Sums are in single precision, in runs of some
// hundred products that are then added up.
//
// Images have the blocked layout (image, block, height, width, 16), with zeros after the last
// channel; weights are (output, input of the group, height, width). Any kernel, stride, padding and
// dilation; groups only of whole channel blocks. A NaN or infinity in x or dy may reach every
// element of the filters of its channel, as padding is multiplied too.
//
// Results do not depend on the number of threads, bit for bit. Scratch for some number of threads
// suffices for fewer threads. Thread safety: any, with scratch of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/bfloat16.h"
#include "math/blocked_conv.h"

namespace crema {

enum class BF16Unit { kVectors, kTiles };

// Returns true if this processor has the unit and Linux lets this process use it; the first call
// for tiles requests their registers. The functions that compute require it.
bool HasBF16Unit(BF16Unit unit);

// Requires: groups are 1 or of whole channel blocks.
bool IsBF16GradientShape(const BlockedConvShape& shape);

// Returns true if it is expected to be faster than oneDNN on vectors. Requires IsBF16GradientShape.
bool BF16GradientPays(BF16Unit unit, const BlockedConvShape& shape);

// Adds to dweight. Requires IsBF16GradientShape.
size_t BF16WeightGradientScratch(const BlockedConvShape& shape, int threads);
void BF16WeightGradient(BF16Unit unit, const BlockedConvShape& shape, int threads,
                        const BFloat16* x, const BFloat16* dy, float* dweight,
                        std::span<std::byte> scratch);

}  // namespace crema
