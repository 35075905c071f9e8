// Shared code of GPU losses: labels, sums over a batch, and normalizers.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "layers/gpu_implementation.h"
#include "layers/loss/labels.h"
#include "layers/loss/loss_normalizer.h"
#include "math/cuda/launch.cuh"
#include "math/scratch.h"

namespace crema {

template <typename T>
using GpuLabels = ClassLabels<T, float>;

constexpr int64_t kMostSumParts = 256;  // most teams that sum one batch

inline size_t SumScratch() { return ScratchBytes<double>(kMostSumParts); }

// Divisor of the sum of a loss; `counted` points to it if it is in device memory
// only.
struct GpuDivisor {
  float fixed = 1;
  const float* counted = nullptr;
  CREMA_HOST_DEVICE float Value() const { return counted == nullptr ? fixed : *counted; }
};

// Calls finish(sum) in one thread, with the sum of the floats term(i) for 0 <= i < count, added as
// double. `parts` has room for kMostSumParts.
template <typename Term, typename Finish>
static void SumBatch(const CudaQueue& queue, int64_t count, const Term& term, double* parts,
                     const Finish& finish) {
  constexpr int64_t kLeast = 4 * Team::kThreads;  // fewest elements per team
  const int64_t pieces = std::clamp<int64_t>(count / kLeast, 1, kMostSumParts);
  ForTeams(queue, "SumParts", pieces, [=] CREMA_HOST_DEVICE(const Team& team, int64_t piece) {
    const int64_t begin = count * piece / pieces, end = count * (piece + 1) / pieces;
    const double sum =
        team.Sum(end - begin, [&](int64_t i) { return static_cast<double>(term(begin + i)); });
    team.For(1, [&](int64_t) { parts[piece] = sum; });
  });
  ForTeams(queue, "SumOfParts", 1, [=] CREMA_HOST_DEVICE(const Team& team, int64_t) {
    const double sum = team.Sum(pieces, [&](int64_t i) { return parts[i]; });
    team.For(1, [&](int64_t) { finish(sum); });
  });
}

// loss = sum of term(i) / divisor.
template <typename T, typename Term>
static void WriteLoss(const CudaQueue& queue, int64_t count, const Term& term, GpuDivisor divisor,
                      double* parts, T* loss) {
  SumBatch(queue, count, term, parts, [=] CREMA_HOST_DEVICE(double sum) {
    loss[0] = FromFloat<T>(static_cast<float>(sum / divisor.Value()));
  });
}

// The same for given costs.
template <typename T>
static void WriteSumOfCosts(const CudaQueue& queue, int64_t count, const float* costs,
                            GpuDivisor divisor, double* parts, T* loss) {
  WriteLoss(
      queue, count, [=] CREMA_HOST_DEVICE(int64_t i) { return costs[i]; }, divisor, parts, loss);
}

// Returns the normalizer. If it depends on ignored positions, it is computed on the device:
// `counts(i)` is 1 for positions that count and 0 for others, and `result` has room for one float.
template <typename Counts>
static GpuDivisor DivisorOf(const CudaQueue& queue, const LossNormalizer& normalizer,
                            const LossPositions& positions, bool ignores, const Counts& counts,
                            double* parts, float* result) {
  if (!ignores || !normalizer.counts()) {
    return {.fixed = static_cast<float>(normalizer.Divisor(positions))};
  }
  SumBatch(queue, positions.all, counts, parts, [=] CREMA_HOST_DEVICE(double sum) {
    result[0] = static_cast<float>(sum < 1 ? 1 : sum);
  });
  return {.fixed = 1, .counted = result};
}

// Scratch of implementations that only sum.
inline size_t LossScratch(const OpDesc&) {
  return SumScratch() + ScratchBytes<float>(1) + kScratchSlack;
}

// Makes an implementation with LossScratch in both passes.
inline ImplementationPtr MakeLossImplementation(void (*forward)(const Layer&, const ForwardArgs&),
                                                void (*backward)(const Layer&,
                                                                 const BackwardArgs&)) {
  return MakeCudaImplementation(forward, backward,
                                {.forward_scratch = LossScratch, .backward_scratch = LossScratch});
}

}  // namespace crema
