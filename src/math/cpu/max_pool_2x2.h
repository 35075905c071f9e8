// The usual maximum pooling, by vectors: windows of 2x2 that do not overlap, without padding.
#pragma once

#include <cstdint>

#include "math/pool.h"

namespace crema {

bool IsMaxPool2x2(const PoolWindow& window);

// As MaxPool and MaxPoolBackward; require IsMaxPool2x2.
void MaxPool2x2(const PoolWindow& window, int64_t planes, const float* x, float* y, uint8_t* index);
void MaxPool2x2Backward(const PoolWindow& window, int64_t planes, const uint8_t* index,
                        const float* dy, float* dx);

}  // namespace crema
