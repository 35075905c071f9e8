#include "math/int8_weights.h"

#include <algorithm>
#include <cmath>

#include "core/parallel_for.h"
#include "core/processor.h"
#include "math/int8_copy.h"

namespace crema {
namespace {

constexpr float kLeastStep = 1e-30F;  // keeps 1 / step finite

float QuantizeRow(int64_t columns, const float* weight, float factor, int largest, int8_t* bytes) {
  float magnitude = 0;
  for (int64_t i = 0; i < columns; ++i) {
    magnitude = std::max(magnitude, std::abs(weight[i] * factor));
  }
  const float step = magnitude / static_cast<float>(largest);
  if (step < kLeastStep || !std::isfinite(step)) {
    std::fill(bytes, bytes + columns, int8_t{0});
    return 0;
  }
  for (int64_t i = 0; i < columns; ++i) {
    bytes[i] = NearestByte<int8_t>(weight[i] * factor, 1 / step);
  }
  return step;
}

}  // namespace

int LargestInt8Weight() {
#if defined(__x86_64__)
  return Processor().avx512_vnni ? 127 : 63;
#else
  return 127;
#endif
}

void QuantizeRows(int threads, int64_t rows, int64_t columns, const float* weight,
                  const float* factor, int8_t* bytes, float* steps, int largest) {
  constexpr int64_t kGrain = 16;
  ParallelFor(threads, rows, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      steps[r] = QuantizeRow(columns, weight + r * columns, factor == nullptr ? 1.0F : factor[r],
                             largest, bytes + r * columns);
    }
  });
}

}  // namespace crema
