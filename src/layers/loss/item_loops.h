// Loops over the items of a batch, divided over threads. For the CPU: nvcc compiles no OpenMP.
#pragma once

#include <cstdint>

#include "core/parallel_for.h"
#include "math/reduce.h"

namespace crema {

// Returns a sum over items. add(n, sum) returns `sum` plus the costs of item n. The order depends
// on `count` and `grain` only (OrderedSum).
template <typename Add>
double SumItems(int threads, int64_t count, int64_t grain, const Add& add) {
  return OrderedSum(threads, count, grain, [&](int64_t begin, int64_t end) {
    double sum = 0;
    for (int64_t n = begin; n < end; ++n) sum = add(n, sum);
    return sum;
  });
}

// Calls body(n) for all items.
template <typename Body>
void ForItems(int threads, int64_t count, int64_t grain, const Body& body) {
  ParallelFor(threads, count, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t n = begin; n < end; ++n) body(n);
  });
}

}  // namespace crema
