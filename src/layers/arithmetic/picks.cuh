// picks.h on the GPU. Indices cannot be checked there in time: a pick outside x has the offset -1.
#pragma once

#include "layers/arithmetic/picks.h"
#include "math/cuda/launch.cuh"
#include "math/scratch.h"

namespace crema {

// Exchanges keys[i] and keys[i ^ mask] if the later one belongs before the earlier.
[[maybe_unused]] static void ExchangeKeys(const CudaQueue& queue, int64_t count, int64_t mask,
                                          PickKey* keys) {
  ForElements(queue, "ExchangeKeys", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t other = i ^ mask;
    if (other <= i || other >= count || !KeyBefore(keys[other], keys[i])) return;
    const PickKey key = keys[i];
    keys[i] = keys[other];
    keys[other] = key;
  });
}

// Sorts keys by their offsets; those of one offset by their picks. A bitonic sort as in
// team_lists.cuh, over all threads of the GPU.
[[maybe_unused]] static void SortKeys(const CudaQueue& queue, int64_t count, PickKey* keys) {
  for (int64_t block = 2; block < 2 * count; block *= 2) {
    ExchangeKeys(queue, count, block - 1, keys);
    for (int64_t stride = block / 4; stride > 0; stride /= 2) {
      ExchangeKeys(queue, count, stride, keys);
    }
  }
}

// Writes the sorted keys of all picks.
template <typename T>
static void SortPicks(const CudaQueue& queue, const Picks& picks, const T* index, PickKey* keys) {
  const Picks from = picks;
  ForElements(queue, "PickKeys", picks.count, [=] CREMA_HOST_DEVICE(int64_t p) {
    keys[p] = PickKey{from.Offset(index, p), p};
  });
  SortKeys(queue, picks.count, keys);
}

// Returns the bytes of scratch for the keys.
inline size_t PickScratch(const Picks& picks) {
  return ScratchBytes<PickKey>(picks.count) + kScratchSlack;
}

}  // namespace crema
