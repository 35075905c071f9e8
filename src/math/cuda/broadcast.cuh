// AddBroadcastSums of math/broadcast.h, on the GPU.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "math/broadcast_shape.h"
#include "math/cuda/sums.cuh"
#include "math/scratch.h"

namespace crema {

// Returns the pieces of each sum, so that a few long sums keep a GPU busy too.
inline int64_t BroadcastSumPieces(const BroadcastShape& e) {
  constexpr int64_t kTeams = 512, kLeast = 1 << 13;  // sufficient teams; elements worth a piece
  if (e.count() == 0 || (e.inner == 1 && e.middle > 1)) return 1;
  return std::clamp<int64_t>(std::min(kTeams / e.middle, e.outer * e.inner / kLeast), 1, kTeams);
}

// Returns the bytes of scratch for AddBroadcastSums.
inline size_t BroadcastSumScratch(const BroadcastShape& e) {
  const int64_t pieces = BroadcastSumPieces(e);
  return pieces == 1 ? 0 : ScratchBytes<float>(e.middle * pieces) + kScratchSlack;
}

// sums[m] += the sum of term(i) over all elements i with middle index m; `term` returns float.
template <typename T, typename Term>
static void AddBroadcastSums(const CudaQueue& queue, const BroadcastShape& e, const Term& term,
                             std::span<std::byte> scratch, T* sums) {
  const int64_t middle = e.middle, inner = e.inner, each = e.outer * e.inner;
  if (e.count() == 0) return;
  if (inner == 1 && middle > 1) {
    AddColumnSums(
        queue, e.outer, middle,
        [=] CREMA_HOST_DEVICE(int64_t r, int64_t c) { return term(r * middle + c); }, sums);
    return;
  }
  const auto element = [=] CREMA_HOST_DEVICE(int64_t m, int64_t k) {
    return term((k / inner * middle + m) * inner + k % inner);
  };
  const int64_t pieces = BroadcastSumPieces(e);
  if (pieces == 1) {
    AddRowSums(queue, middle, each, element, sums);
    return;
  }
  float* parts = ScratchCutter(scratch).Take<float>(middle * pieces);
  ForTeams(
      queue, "SumPieces", middle * pieces, [=] CREMA_HOST_DEVICE(const Team& team, int64_t index) {
        const int64_t piece = index % pieces;
        const int64_t begin = each * piece / pieces, end = each * (piece + 1) / pieces;
        const float sum =
            team.Sum(end - begin, [&](int64_t k) { return element(index / pieces, begin + k); });
        team.For(1, [&](int64_t) { parts[index] = sum; });
      });
  AddRowSums(
      queue, middle, pieces,
      [=] CREMA_HOST_DEVICE(int64_t m, int64_t p) { return parts[m * pieces + p]; }, sums);
}

}  // namespace crema
