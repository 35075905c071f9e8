// Parallel loop over the elements of a small matrix.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/parallel_for.h"

namespace crema {

// Calls body(row, begin, end) for parts of rows that together cover rows x columns elements.
// `grain` is the fewest elements per thread.
template <typename Body>
void ForRows(int threads, int64_t rows, int64_t columns, int64_t grain, Body&& body) {
  ParallelFor(threads, rows * columns, grain, [&](int64_t begin, int64_t end, int) {
    while (begin < end) {
      const int64_t row = begin / columns;
      const int64_t stop = std::min(end, (row + 1) * columns);
      body(row, begin - row * columns, stop - row * columns);
      begin = stop;
    }
  });
}

}  // namespace crema
