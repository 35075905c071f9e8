// The gradient of the weights of a convolution on blobs of bfloat16, by the units of the processor
// that multiply pairs of such numbers: vectors (AVX512-BF16) or tiles (AMX). Sums are in single
// precision, in runs of some hundred products that are then added up.
//
// Images lie in channel blocks, (image, block, height, width, 16), with zeros behind the last
// channel; weights as (output, input of the group, height, width). Any kernel, stride, padding and
// dilation; groups only of whole channel blocks. NaN and infinity in x or dy may reach all places
// of the filters of their channels, as padding is multiplied too.
//
// Bits do not depend on the number of threads. Scratch that is booked for some threads suffices for
// fewer of them. Thread safety: any, with scratch of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/bfloat16.h"
#include "math/blocked_conv.h"

namespace crema {

enum class BF16Unit { kVectors, kTiles };

// Whether this processor has it, and Linux lets this process use it: the first call about tiles
// asks for their registers. What computes requires it.
bool HasBF16Unit(BF16Unit unit);

// Requires: groups are 1 or of whole channel blocks.
bool IsBF16GradientShape(const BlockedConvShape& shape);

// Whether it is expected to take less time than oneDNN's on vectors. Requires IsBF16GradientShape.
bool BF16GradientPays(BF16Unit unit, const BlockedConvShape& shape);

// dweight is added to. Requires IsBF16GradientShape.
size_t BF16WeightGradientScratch(const BlockedConvShape& shape, int threads);
void BF16WeightGradient(BF16Unit unit, const BlockedConvShape& shape, int threads,
                        const BFloat16* x, const BFloat16* dy, float* dweight,
                        std::span<std::byte> scratch);

}  // namespace crema
