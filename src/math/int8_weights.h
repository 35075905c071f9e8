// Weights as bytes, with a step for each output.
#pragma once

#include <cstdint>

namespace crema {

// What the largest weight of an output becomes. Less than 127 on processors that add pairs of
// products in 16 bits (without VNNI), which would overflow.
int LargestInt8Weight();

// weight * factor as bytes, row by row, and the step of each row, which is 0 where a row is all
// zeros. `factor` (one a row) may be null. Thread safety: any.
void QuantizeRows(int threads, int64_t rows, int64_t columns, const float* weight,
                  const float* factor, int8_t* bytes, float* steps);

}  // namespace crema
