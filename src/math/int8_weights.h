// Weights as int8, with a step for each output.
#pragma once

#include <cstdint>

namespace crema {

// Returns the largest quantized weight. Less than 127 on processors that add pairs of products in
// 16 bits (without VNNI), which would overflow.
int LargestInt8Weight();

// Quantizes weight * factor row by row, and writes the step of each row, 0 for a row of zeros. The
// largest magnitude of a row becomes `largest`. `factor` (one for each row) may be null. Thread
// safety: any.
void QuantizeRows(int threads, int64_t rows, int64_t columns, const float* weight,
                  const float* factor, int8_t* bytes, float* steps,
                  int largest = LargestInt8Weight());

}  // namespace crema
