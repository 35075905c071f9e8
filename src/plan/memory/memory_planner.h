// Places buffers with known lifetimes into one arena.
#pragma once

#include <cstdint>
#include <vector>

namespace crema {

// Lifetime: steps first..last, both included.
struct BufferRequest {
  int64_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct Placement {
  std::vector<int64_t> offsets;  // indexed by request; multiples of 64
  int64_t arena_bytes = 0;
};

// Places buffers greedily, the largest first, each at the lowest offset that no buffer alive at the
// same time covers (Pisarchyk and Lee, "Efficient memory management for deep neural net inference",
// 2020). Tries other orders if the result exceeds the largest live set by over 1 %, and returns the
// best.
Placement PlaceBuffers(const std::vector<BufferRequest>& requests);

// Returns the live bytes at each step 0..last, with buffers rounded up to multiples of 64.
std::vector<int64_t> LiveBytes(const std::vector<BufferRequest>& requests);
// Returns the largest number of live bytes at any step, a lower bound of every placement.
int64_t LargestLiveSet(const std::vector<BufferRequest>& requests);

}  // namespace crema
