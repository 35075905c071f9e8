// Elements of a small matrix, over threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/parallel_for.h"

namespace crema {

// Calls body(row, begin, end) for pieces of rows that cover rows x columns elements. `grain` is the
// least number of elements that pays for a thread.
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
