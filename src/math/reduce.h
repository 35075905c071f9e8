// Sums that give the same bits on any number of threads.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>

#include "core/parallel_for.h"

namespace crema {

// Returns the sum of body(begin, end) over consecutive pieces of [0, count). The pieces depend on
// count and grain only, and their sums are added in order. `grain` is the least number of elements
// worth a piece.
template <typename Body>
double OrderedSum(int threads, int64_t count, int64_t grain, Body&& body) {
  constexpr int64_t kMaxPieces = 64;
  std::array<double, kMaxPieces> partial{};
  const int64_t pieces = std::clamp<int64_t>(count / grain, 1, kMaxPieces);
  ParallelFor(threads, pieces, 1, [&](int64_t first, int64_t last, int) {
    for (int64_t p = first; p < last; ++p) {
      partial[static_cast<size_t>(p)] = body(count * p / pieces, count * (p + 1) / pieces);
    }
  });
  return std::accumulate(partial.begin(), partial.begin() + pieces, 0.0);
}

}  // namespace crema
